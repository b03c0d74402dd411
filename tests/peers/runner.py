"""
Does the steps of a case on one control plane, and tells what came of each, so that two planes can be compared.

There is no kubelet: `drive` plays it, by patching the status of Pods. What differs from run to run (uids, times, keys,
the namespace) is left out; so is what is empty.
"""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import yaml

from ktrain.api.quantity import canonical

if TYPE_CHECKING:
    from pathlib import Path

    from .objects import Json

TRAINER, JOBSET = "/apis/trainer.kubeflow.org/v1alpha1", "/apis/jobset.x-k8s.io/v1alpha2"
KINDS = {
    "TrainJob": (TRAINER, "trainjobs"),
    "TrainingRuntime": (TRAINER, "trainingruntimes"),
    "ClusterTrainingRuntime": (TRAINER, "clustertrainingruntimes"),
    "JobSet": (JOBSET, "jobsets"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "PodGroup": ("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"),
    "VolcanoPodGroup": ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
    "Job": ("/apis/batch/v1", "jobs"),
    "Pod": ("/api/v1", "pods"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
}
COMPARED = ("TrainJob", "JobSet", "ConfigMap", "Secret", "PodGroup", "VolcanoPodGroup")
CLUSTERED = ("ClusterTrainingRuntime", "PriorityClass")
DRIVE_S = 60.0
CACHE_S = 1.0
"""Go's admission reads a cache: a runtime made a moment ago is not found."""
_UNSTEADY = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace", "name")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AMOUNTS = ("limits", "requests", "minResources")
OWN_WARNING = ": no effect, because "
"""Part of the warnings that only ktrain gives: of fields that change nothing."""


class Plane:
    """A control plane, by its kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._url = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Json, list[str]]:
        """Send a request; returns code, answer and warnings. A list is a JSON patch."""
        form = "json"
        if method == "PATCH":
            form = "json-patch+json" if isinstance(body, list) else "merge-patch+json"
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | {"Content-Type": f"application/{form}"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._tls) as answer:
                return answer.status, json.load(answer), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            return error.code, json.load(error), error.headers.get_all("Warning") or []


class Run:
    """One case in a namespace of its own."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self._clustered: list[str] = []

    def __enter__(self) -> Run:
        self._plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": self._namespace}})
        return self

    def __exit__(self, *_: object) -> None:
        for path in [*self._clustered, self._path("JobSet"), self._path("TrainJob")]:
            self._plane.call("DELETE", path)
        self._plane.call("DELETE", f"/api/v1/namespaces/{self._namespace}")

    def do(self, step: Json) -> list[Any]:
        """Do a step; returns what was answered, as far as it is worth a word."""
        answers: list[Any] = getattr(self, f"_{step['do']}")(step)
        return answers

    def objects(self) -> Json:
        """Return what there is, by kind and name."""
        found = {f"{kind}/{obj['metadata']['name']}": obj for kind in COMPARED for obj in self._list(kind)}
        found.pop("ConfigMap/kube-root-ca.crt", None)
        return {name: self._comparable(name, obj) for name, obj in found.items()}

    def told(self) -> Json:
        """Return the type and action of the events that say a TrainJob cannot be made; others only ktrain has."""
        return {
            f"Event/{event['regarding']['name']}": [event["type"], event.get("action")]
            for event in self._list("Event")
            if event["reason"] == "TrainJobResourcesCreationFailed"
        }

    def _path(self, kind: str, *rest: str) -> str:
        prefix, plural = KINDS[kind]
        where = "" if kind in CLUSTERED else f"/namespaces/{self._namespace}"
        return "/".join((f"{prefix}{where}/{plural}", *rest))

    def _list(self, kind: str, query: str = "") -> list[Json]:
        items: list[Json] = self._plane.call("GET", self._path(kind) + query)[1].get("items") or []
        return items

    def _create(self, step: Json) -> list[Any]:
        answers, before = [], ""
        for obj in step["objects"]:
            kind, name = obj["kind"], obj["metadata"]["name"]
            if kind == "TrainJob" != before:
                time.sleep(CACHE_S)
            before = kind
            answers.append(self._said(kind, name, self._plane.call("POST", self._path(kind), obj)))
            if kind in CLUSTERED:
                self._clustered.append(self._path(kind, name))
        return [answer for answer in answers if answer]

    def _patch(self, step: Json) -> list[Any]:
        part = [step["of"]] if "of" in step else []
        answer = self._plane.call("PATCH", self._path(step["kind"], step["name"], *part), step["patch"])
        return [self._said(step["kind"], step["name"], answer)]

    def _delete(self, step: Json) -> list[Any]:
        path = self._path(step["kind"], step["name"])
        return [self._plane.call("DELETE", f"{path}?propagationPolicy=Background")[0]]

    def _wait(self, step: Json) -> list[Any]:
        time.sleep(step["seconds"])
        return []

    def _said(self, kind: str, name: str, answer: tuple[int, Json, list[str]]) -> list[Any]:
        """Code, reason, warnings and the parts of the message in any order, without the values that it quotes."""
        code, body, warnings = answer
        warnings = [one for one in warnings if OWN_WARNING not in one]
        if code < 400 and not warnings:
            return []
        causes = (body.get("details") or {}).get("causes") or []
        parts = [f"{cause.get('field')}: {cause.get('message')}" for cause in causes]
        if not parts and code >= 400:
            message = self._steady(body["message"]).partition("denied the request: ")
            parts = re.split(r", (?=spec\.)", (message[2] or message[0]).strip("[]"))
        return [f"{kind}/{name}", code, body.get("reason"), sorted(set(map(_without_value, parts))), warnings]

    def _drive(self, step: Json) -> list[Any]:
        """Patch Pods until the Jobs are as wanted; only those Jobs that were there at first, so no restarted ones."""
        wanted = [(name, index, state) for name, states in step["jobs"].items() for index, state in _each(states)]
        known: dict[tuple[str, str | None], set[str]] = {}
        deadline = time.monotonic() + DRIVE_S
        left = wanted
        while left and time.monotonic() < deadline:
            jobs, left = self._list("Job"), []
            for name, index, state in wanted:
                mine = [job for job in jobs if _is_of(job, name, index)]
                uids = known.setdefault((name, index), {job["metadata"]["uid"] for job in mine}) if mine else set()
                mine = [job for job in mine if job["metadata"]["uid"] in uids]
                waiting = [job for job in mine if not _has_reached(job, state)]
                for job in waiting:
                    self._play(job["metadata"]["name"], state)
                if waiting or (name, index) not in known or (not mine and state == "running"):
                    left.append((name, index, state))
            time.sleep(0.1)
        return [f"not driven: {left}"] if left else []

    def _play(self, job: str, state: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        over = {"exitCode": int(state == "failed"), "reason": "Ended", "startedAt": now, "finishedAt": now}
        inside = {"running": {"startedAt": now}} if state == "running" else {"terminated": over}
        ready = state == "running"
        for pod in self._list("Pod", "?labelSelector=" + urllib.parse.quote(f"batch.kubernetes.io/job-name={job}")):
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", state.capitalize()):
                continue
            common = {"image": "", "imageID": "", "ready": ready, "restartCount": 0, "started": ready, "state": inside}
            status = {
                "phase": state.capitalize(),
                "startTime": now,
                "conditions": [{"type": t, "status": str(ready)} for t in ("Ready", "ContainersReady")],
                "containerStatuses": [{"name": c["name"], **common} for c in pod["spec"]["containers"]],
            }
            self._plane.call("PATCH", self._path("Pod", pod["metadata"]["name"], "status"), {"status": status})

    def _comparable(self, name: str, obj: Json) -> Json:
        obj = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
        obj["metadata"] = {key: value for key, value in obj["metadata"].items() if key not in _UNSTEADY}
        data = obj.get("data") or {}
        if name.startswith("Secret/") or name.endswith("-flux-entrypoint"):
            obj["data"] = dict.fromkeys(data, "…")
        elif name.endswith("-runtime-snapshot"):
            runtime = yaml.safe_load(data["runtime"])
            obj["data"] = {"runtime": runtime["spec"], "of": [runtime["kind"], runtime["metadata"]["name"]]}
        if name.startswith("TrainJob/"):
            for own in ("diagnosis", "state", "nodes", "restarts"):
                (obj.get("status") or {}).pop(own, None)
        found: Json = self._steady(obj)
        return found

    def _steady(self, value: Any, *, amounts: bool = False) -> Any:
        if isinstance(value, dict):
            kept = {key: self._steady(item, amounts=amounts or key in _AMOUNTS) for key, item in value.items()}
            return {self._steady(key): item for key, item in kept.items() if item not in ({}, [], None)}
        if isinstance(value, list):
            return [self._steady(item) for item in value]
        if amounts:
            return canonical(value)
        return (
            _TIME.sub("<time>", _UID.sub("<uid>", value.replace(self._namespace, "NS")))
            if isinstance(value, str)
            else value
        )


def _without_value(part: str) -> str:
    """Leave out the value that a refusal quotes: Go's is in the order of its fields."""
    head, said, rest = part.partition("Invalid value: ")
    if not said or rest[:1] not in ("{", "["):
        return part
    _, end = json.JSONDecoder().raw_decode(rest)
    return f"{head}{said}…{rest[end:]}"


def _each(states: Any) -> list[tuple[str | None, str]]:
    return [(str(index), state) for index, state in states.items()] if isinstance(states, dict) else [(None, states)]


def _is_of(job: Json, name: str, index: str | None) -> bool:
    labels, prefix = job["metadata"]["labels"], "jobset.sigs.k8s.io"
    return (
        not job["metadata"].get("deletionTimestamp")
        and labels.get(f"{prefix}/replicatedjob-name") == name
        and index in (None, labels.get(f"{prefix}/job-index"))
    )


def _has_reached(job: Json, state: str) -> bool:
    status = job.get("status") or {}
    if state == "running":
        return bool(status.get("ready", 0) >= job["spec"]["parallelism"])
    ends = {one["type"] for one in status.get("conditions") or () if one["status"] == "True"}
    return {"succeeded": "Complete", "failed": "Failed"}[state] in ends
