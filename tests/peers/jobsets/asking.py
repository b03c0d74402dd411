"""What admission says to random JobSets, and to random changes of one: asked on two planes, and nothing is done."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from ...waiting import eventually
from ..differences import differences
from .comparing import steady
from .spoiling import spoiled
from .steps import edits, pod_changes
from .watching import path_of
from .writing import JOBS, Chance, jobset, replicated_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .comparing import Place
    from .watching import Json

CHANGES = 6
"""Changes to each JobSet."""
MANAGED = "example.com/nobody"
_OWN = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "generation")


def new(seed: int) -> Json:
    """A JobSet that is mostly wrong in some way."""
    c = Chance(seed)
    made = jobset(c)
    return made if c.one_in(5) else spoiled(c, made)


def said_of_new(places: Sequence[Place], seed: int) -> list[str]:
    """The differences between what is answered to a new JobSet."""
    return _differences(places, new(seed))


def said_of_changes(places: Sequence[Place], seed: int) -> list[str]:
    """The differences between what is answered to changes of a JobSet, which nobody manages meanwhile."""
    c = Chance(seed)
    name = f"js{seed}"
    made = jobset(c, name)
    made["spec"]["managedBy"] = MANAGED
    answers = [place.plane.call("POST", path_of("JobSet", place.namespace), made)[:2] for place in places]
    found = list(differences(*map(steady, (list(answer) for answer in answers)), f"{seed} created"))
    if found or answers[0][0] >= 400:
        return found
    stored = {key: value for key, value in answers[0][1].items() if key != "status"}
    stored["metadata"] = {key: value for key, value in stored["metadata"].items() if key not in _OWN}
    for place in places:
        eventually(partial(place.plane.seen, place.namespace), lambda seen: f"JobSet/{name}" in seen, every_s=0.01)
    for _ in range(CHANGES):
        found += _differences(places, changed(c, stored), name)
    for place in places:
        place.plane.call("DELETE", path_of("JobSet", place.namespace, name))
    return found


def changed(c: Chance, stored: Json) -> Json:
    """The JobSet with something else in it: much of it may not be changed."""
    obj: Json = deepcopy(stored)
    spec = obj["spec"]
    way = c.choice(("spoil", "edit", "pod", "pod", "job"))
    if way == "spoil":
        obj = spoiled(c, obj) | {"metadata": stored["metadata"]}
    elif way == "edit":
        spec |= edits(c, spec, [])["spec"]
    elif way == "pod":
        template = c.choice(spec["replicatedJobs"])["template"]["spec"]["template"]
        for field, value in pod_changes(c).items():
            part = template.setdefault("metadata" if field in ("labels", "annotations") else "spec", {})
            part[field] = value
    else:
        other = replicated_job(c, c.choice(JOBS), [])
        field = c.choice(sorted(other))
        c.choice(spec["replicatedJobs"])[field] = other[field]
    if way in ("pod", "job") and c.one_in(2):
        spec["suspend"] = c.one_in(2)
    return obj


def _differences(places: Sequence[Place], obj: Json, name: str = "") -> list[str]:
    go, ours = (_comparable(place.ask(obj, name), obj["metadata"].get("generateName", "")) for place in places)
    if "json: cannot unmarshal" in str(go) and ours[0] in (400, 422):
        # Go's decoder refuses what is of another type than its fields; here the schema does, with the path.
        return []
    return list(differences(go, ours))


def _comparable(answer: Any, prefix: str) -> Any:
    """Without generated letters; and what a schema complains of comes in any order."""
    if prefix:
        answer = json.loads(re.sub(re.escape(prefix[:58]) + "[a-z0-9]{5}", f"{prefix[:58]}?", json.dumps(answer)))
    code, warnings, body = answer
    if code == 422 and "admission webhook" not in body["message"]:
        body = {**body["details"], "causes": sorted(body["details"]["causes"], key=str)}
    return [code, warnings, body]
