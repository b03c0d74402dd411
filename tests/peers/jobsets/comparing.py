"""Does the same on two planes, and tells where what is answered, and what then is there, differs."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ..differences import differences
from .watching import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .watching import Json, Watched

HOLD_S = 1.0
"""For how long two planes have to be the same, and quiet."""
STEP_S = 15.0
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_CASE_TIME = "2026-01-01"
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNSTEADY = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "clusterIP", "clusterIPs")
_SETS = ("tolerations", "schedulingGates")
"""What Go joins when it resumes a Job, in the order of a hash."""
OURS = "ReconcileFailed"
"""An event that only ktrain has."""
_DRY = "?dryRun=All"


class Place:
    """A namespace on one plane, and what is done there."""

    def __init__(self, plane: Watched, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace

    def open(self) -> None:
        self.plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def close(self) -> None:
        """Delete everything; first the JobSet, or its controller tries to make what goes with the namespace again."""
        self.plane.call("DELETE", path_of("JobSet", self.namespace, "js"))
        self.plane.call("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def do(self, step: Json) -> Any:
        """Do a step; returns what was answered."""
        return getattr(self, f"_{step['do']}")(step)

    def ask(self, obj: Json, name: str = "") -> Any:
        """Ask whether a JobSet may be made, or with a name be changed to this; nothing is."""
        path = path_of("JobSet", self.namespace, *([name] if name else []))
        if name:
            stored = self.plane.seen(self.namespace)[f"JobSet/{name}"]["metadata"]
            obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": stored["resourceVersion"]}}
        return self._said(self.plane.call("PUT" if name else "POST", path + _DRY, obj), whole=True)

    def objects(self) -> Json:
        """What there is; of events, what they say."""
        seen = self.plane.seen(self.namespace)
        found = {name: steady(obj) for name, obj in seen.items() if not name.startswith("Event/")}
        events = {_event(obj) for name, obj in seen.items() if name.startswith("Event/")}
        return found | {"events": sorted(events - {""})}

    def _create(self, step: Json) -> Any:
        return self._said(self.plane.call("POST", path_of(step["kind"], self.namespace), step["object"]))

    def _patch(self, step: Json) -> Any:
        rest = [step["name"]] + ([step["subresource"]] if "subresource" in step else [])
        return self._said(self.plane.call("PATCH", path_of(step["kind"], self.namespace, *rest), step["patch"]))

    def _delete(self, step: Json) -> Any:
        path = path_of(step["kind"], self.namespace, step["name"])
        return self.plane.call("DELETE", f"{path}?propagationPolicy=Background")[0]

    def _update(self, step: Json) -> Any:
        """Change fields of the JobSet's spec and of one pod template in one write."""
        stored = self.plane.seen(self.namespace).get("JobSet/js")
        if stored is None:
            return "no JobSet"
        patch: list[Json] = [_put(f"/spec/{field}", value, stored["spec"]) for field, value in step["spec"].items()]
        jobs = stored["spec"].get("replicatedJobs") or []
        if step["pod"] and step["index"] < len(jobs):
            template, path = jobs[step["index"]]["template"]["spec"]["template"], ""
            for field, value in step["pod"].items():
                path = f"/spec/replicatedJobs/{step['index']}/template/spec/template"
                part = "metadata" if field in ("labels", "annotations") else "spec"
                patch.append(_put(f"{path}/{part}/{field}", value, template.get(part) or {}))
        return self._said(
            self.plane.call("PATCH", path_of("JobSet", self.namespace, "js"), [one for one in patch if one])
        )

    def _resize(self, step: Json) -> Any:
        """Change the numbers of pods of all replicated jobs in one write."""
        path = "/spec/replicatedJobs/{}/template/spec/{}"
        patch = [
            {"op": "add", "path": path.format(at, field), "value": job[field]}
            for at, job in enumerate(step["jobs"])
            for field in ("parallelism", "completions")
            if field in job
        ]
        return self._said(self.plane.call("PATCH", path_of("JobSet", self.namespace, "js"), patch))

    def _said(self, answer: tuple[int, Json, list[str]], *, whole: bool = False) -> Any:
        code, body, warnings = answer
        if code < 400:
            return [code, warnings, steady(body) if whole else ""]
        return [code, warnings, steady({key: body.get(key) for key in ("reason", "message", "details")})]


def _put(path: str, value: Any, parent: Json) -> Json:
    if value is not None:
        return {"op": "add", "path": path, "value": value}
    return {"op": "remove", "path": path} if path.rpartition("/")[2] in parent else {}


def _event(obj: Json) -> str:
    note, about = obj.get("note", ""), obj["regarding"]
    if about["kind"] != "JobSet" or "already exists" in note or obj.get("reason") == OURS:
        return ""
    said = (obj.get("type"), obj.get("reason"), obj.get("action"), obj.get("reportingController"), note)
    return steady(" | ".join(map(str, (about["name"], *said))))


def steady(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        kept = {key: steady(item) for key, item in value.items() if key not in _UNSTEADY}
        return kept | {key: sorted(kept[key], key=_in_order) for key in _SETS if kept.get(key)}
    if isinstance(value, list):
        return [steady(item) for item in value]
    if isinstance(value, str) and not value.startswith(_CASE_TIME):
        return _TIME.sub("<time>", _UID.sub("<uid>", value))
    return value


def _in_order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def compare(planes: Sequence[Watched], namespace: str, steps: Sequence[Json]) -> list[str]:
    """Do a life on both planes, Go's first; returns the differences after the first step that has any."""
    go, ours = places = [Place(plane, namespace) for plane in planes]
    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(Place.open, places))
            for number, step in enumerate(steps):
                said = list(differences(*pool.map(lambda place, step=step: place.do(step), places), f"{number} answer"))
                found = said or _settled(go, ours, str(number))
                if found:
                    return found
        finally:
            list(pool.map(Place.close, places))
    return []


def _settled(go: Place, ours: Place, at: str) -> list[str]:
    started = since = time.monotonic()
    while True:
        found = list(differences(go.objects(), ours.objects(), at))
        now = time.monotonic()
        quiet = min(place.plane.quiet_s(place.namespace) for place in (go, ours))
        since = now if found else since
        if (min(now - since, quiet) > HOLD_S) or now - started > STEP_S:
            return found
        time.sleep(0.1)


def shrunk(value: Any) -> Iterator[Any]:
    """Everything that is a little less than this value."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield _with(value, key)
        for less in shrunk(item):
            yield _with(value, key, [less])


def _with(value: Any, key: Any, new: Sequence[Any] = ()) -> Any:
    if isinstance(value, dict):
        return (
            {k: v for k, v in value.items() if k != key} | dict.fromkeys([key] * len(new), *new)
            if new
            else {k: v for k, v in value.items() if k != key}
        )
    return [*value[:key], *new, *value[key + 1 :]]
