"""
Plays a scenario: a Job, and what a kubelet and a user do to it, step by step; and says what can be seen after each.

The same on both planes. What differs from run to run (times, UIDs, the random part of names) is blanked, so that what
was seen on the real Job controller can be compared with what is seen on ours.

A step is a dict with one action, and `after`, the seconds that pass after it (default 3):

    pods: {to: Running|Ready|Succeeded|Failed, index: [0, 1], first: n, exit: 1, container: c, init: true,
           conditions: [T], restarts: n, ago: s}    the status of live pods, as a kubelet writes it
    evict: {index: [0], first: n, grace: s}     deletes pods; they end when a kubelet lets them (`hold`)
    untrack: {first: n}                 takes the finalizers from live pods
    hold: true|false                    whether terminating pods stay
    patch: {...}                        a merge patch of the Job; `status: true` of its status
    label: {key: value|null}            of the live pods
    orphan: true                        takes the owner from the live pods
    pod: {...}                          a pod of the user's own; "$uid" is the Job's UID
    delete: Foreground|Background|Orphan
    wait: true                          only time passes
    error: true                         the step's request must be refused
"""

import re
from datetime import timedelta

from ktrain.api.core import EVENTS, JOBS, PODS, untyped
from ktrain.api.meta import Key, format_time
from ktrain.framework.errors import ApiError, NotFound

BINDING_NODE = "somewhere"
ANY_JOBS, ANY_PODS, ANY_EVENTS = untyped(JOBS), untyped(PODS), untyped(EVENTS)
COMBINED = "(combined from similar events): "


class Scene:
    """One Job on one plane."""

    def __init__(self, plane, scenario):
        self._plane = plane
        self._client = plane.client("scenario")
        self._scenario = scenario
        self._hold = False
        self.key = Key(plane.namespace, scenario["name"])
        self.uid = ""
        self._names = {}

    async def create(self):
        """Create the Job; returns how it was stored, or the refusal."""
        job = self._scenario["job"]
        template = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **job.pop("podSpec", {})}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.key.name, "namespace": self.key.namespace, **job.pop("metadata", {})},
            "spec": {**job, "template": {**job.get("template", {}), "spec": template}},
        }
        try:
            made = await self._client.create(ANY_JOBS, body)
        except ApiError as error:
            return {"refused": self._blank(error.status.message)}
        self.uid = made["metadata"]["uid"]
        return {"spec": self._blank_all(made["spec"]), "labels": self._blank_all(made["metadata"].get("labels", {}))}

    async def act(self, step):
        """Do one step; returns the refusal's message if it was refused."""
        name = next(name for name in step if name not in ("after", "error", "status"))
        given = step[name]
        try:
            await getattr(self, f"_do_{name}")(given, **({"status": True} if step.get("status") else {}))
        except ApiError as error:
            # Values are shown as Go holds them, which is not how they were sent.
            return re.sub(r"Invalid value: \{.*\}: ", "Invalid value: {...}: ", self._blank(error.status.message))
        return None

    async def see(self):
        """Return all that is to be seen."""
        try:
            job = await self._client.get(ANY_JOBS, self.key.name, self.key.namespace)
        except NotFound:
            job = None
        pods = await self._pods()
        self._names.update({p["metadata"]["name"]: p["metadata"]["generateName"] for p in pods if _is_generated(p)})
        seen = {"pods": sorted(self._line(pod) for pod in pods)}
        if job is not None:
            seen["job"] = self._status(job)
        return seen

    async def made(self):
        """Return one pod as it was made, to compare all of it."""
        pods = [pod for pod in await self._pods() if _is_generated(pod)]
        if not pods:
            return None
        pod = min(pods, key=lambda pod: pod["metadata"]["name"])
        meta, spec = pod["metadata"], pod["spec"]
        owners = [{**owner, "uid": self._blank(owner["uid"])} for owner in meta.get("ownerReferences", [])]
        parts = ("containers", "initContainers", "hostname", "subdomain", "restartPolicy", "schedulingGates")
        return {
            "generateName": meta["generateName"],
            "labels": self._blank_all(meta.get("labels", {})),
            "annotations": self._blank_all(meta.get("annotations", {})),
            "finalizers": meta.get("finalizers", []),
            "owners": owners,
            "spec": {part: spec[part] for part in parts if part in spec},
        }

    async def events(self):
        """Return the Job's events: how often what was said."""
        listed = await self._client.list(ANY_EVENTS, self.key.namespace)
        counts = {}
        for event in listed.items:
            if event["regarding"].get("uid") == self.uid:
                # Which of many are told together depends on who was first.
                note = re.sub(r"(-\d+)?-\*$", "-*", self._blank(event["note"])).removeprefix(COMBINED)
                text = f"{event['type']} {event['reason']}: {note}"
                series = (event.get("series") or {}).get("count") or event.get("deprecatedCount") or 1
                counts[text] = counts.get(text, 0) + series
        return dict(sorted(counts.items()))

    async def tend(self):
        """Do what a scheduler and a kubelet do by themselves; returns whether there was anything to do."""
        busy = False
        for pod in await self._pods():
            meta = pod["metadata"]
            if "deletionTimestamp" in meta:
                if not self._hold:
                    busy |= await self._end(pod)
            elif not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates"):
                await self._bind(meta["name"])
                busy = True
        return busy

    async def _end(self, pod):
        meta = pod["metadata"]
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            known = [c["type"] for c in pod["status"].get("conditions", []) if c["type"] == "DisruptionTarget"]
            await self._put_status(meta["name"], self._ended(pod, "Failed", {"exit": 143, "conditions": known}))
            return True
        if meta.get("deletionGracePeriodSeconds"):
            await self._client.delete(PODS, Key(self.key.namespace, meta["name"]), grace_period_s=0)
            return True
        return False

    async def _bind(self, name):
        target = {"kind": "Node", "name": BINDING_NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self._client.raw("POST", PODS.path(self.key.namespace, name, "binding"), body=body)

    # Steps

    async def _do_pods(self, given):
        for pod in self._select(await self._pods(), given):
            to = given["to"]
            status = self._ended(pod, to, given) if to in ("Succeeded", "Failed") else self._running(pod, given)
            await self._put_status(pod["metadata"]["name"], status)

    async def _do_evict(self, given):
        for pod in self._select(await self._pods(), given):
            key = Key(self.key.namespace, pod["metadata"]["name"])
            await self._client.delete(PODS, key, grace_period_s=given.get("grace"))

    async def _do_untrack(self, given):
        for pod in self._select(await self._pods(), given):
            key = Key(self.key.namespace, pod["metadata"]["name"])
            await self._client.patch(PODS, key, {"metadata": {"finalizers": None}})

    async def _do_hold(self, given):
        self._hold = given

    async def _do_patch(self, given, *, status=False):
        await self._client.patch(ANY_JOBS, self.key, given, subresource="status" if status else "")

    async def _do_label(self, given):
        for pod in self._select(await self._pods(), {}):
            key = Key(self.key.namespace, pod["metadata"]["name"])
            await self._client.patch(PODS, key, {"metadata": {"labels": given}})

    async def _do_orphan(self, _given):
        for pod in self._select(await self._pods(), {}):
            key = Key(self.key.namespace, pod["metadata"]["name"])
            await self._client.patch(PODS, key, {"metadata": {"ownerReferences": None}})

    async def _do_pod(self, given):
        labels = {name: self.uid if value == "$uid" else value for name, value in given.get("labels", {}).items()}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": self.key.namespace, **given, "labels": labels},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        }
        await self._client.create(ANY_PODS, body)

    async def _do_delete(self, given):
        await self._client.delete(JOBS, self.key, propagation=given)

    async def _do_wait(self, _given):
        pass

    # Pods

    async def _pods(self):
        listed = await self._client.list(ANY_PODS, self.key.namespace)
        return sorted(listed.items, key=lambda pod: (pod["metadata"]["creationTimestamp"], _index(pod)))

    def _select(self, pods, given):
        """Live pods, or those of some indexes, or the first of them."""
        live = [
            pod
            for pod in pods
            if pod["status"].get("phase") not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]
        ]
        if "index" in given:
            live = [pod for pod in live if _index(pod) in given["index"]]
        return live[: given.get("first", len(live))]

    def _running(self, pod, given):
        ready = given["to"] == "Ready"
        state = {"running": {"startedAt": self._time()}}
        return {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": self._time()},
                *self._conditions(given),
            ],
            "containerStatuses": self._statuses(pod, given, state, ready=ready),
        }

    def _ended(self, pod, phase, given):
        code = given.get("exit", 0 if phase == "Succeeded" else 1)
        ended = self._time(given.get("ago", 0))
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": ended}}
        status = {"phase": phase, "conditions": self._conditions(given)}
        if given.get("bare"):
            return status
        if given.get("init"):
            ended = {"name": pod["spec"]["initContainers"][0]["name"], "image": "i", "imageID": "", "ready": False}
            return {**status, "initContainerStatuses": [{**ended, "restartCount": 0, "state": state}]}
        return {**status, "containerStatuses": self._statuses(pod, given, state, ready=False)}

    def _statuses(self, pod, given, state, *, ready):
        ended = self._time(given.get("ago", 0))
        good = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": ended}}
        chosen = given.get("container")
        return [
            {
                "name": container["name"],
                "image": "i",
                "imageID": "",
                "ready": ready,
                "restartCount": given.get("restarts", 0),
                "state": state if chosen in (None, container["name"]) else good,
            }
            for container in pod["spec"]["containers"]
        ]

    def _conditions(self, given):
        times = {"lastTransitionTime": self._time()}
        return [{"type": type_, "status": "True", **times} for type_ in given.get("conditions", ())]

    def _time(self, ago=0):
        return format_time(self._plane.env.clock.now() - timedelta(seconds=ago))

    async def _put_status(self, name, status):
        await self._client.patch(PODS, Key(self.key.namespace, name), {"status": status}, subresource="status")

    # What is seen

    def _line(self, pod):
        meta = pod["metadata"]
        notes = meta.get("annotations", {})
        failures = [notes.get(f"batch.kubernetes.io/job-index-{kind}-count") for kind in ("failure", "ignored-failure")]
        owner = next((owner["kind"] for owner in meta.get("ownerReferences", []) if owner.get("controller")), None)
        words = [
            f"#{_index(pod)}" if _index(pod) >= 0 else "-",
            pod["status"].get("phase", ""),
            "deleted" if "deletionTimestamp" in meta else "",
            "tracked" if "batch.kubernetes.io/job-tracking" in meta.get("finalizers", []) else "",
            f"failures={'/'.join(str(number) for number in failures if number)}" if any(failures) else "",
            "" if owner == "Job" else "free",
        ]
        return " ".join(filter(None, words))

    def _status(self, job):
        status = dict(job.get("status", {}))
        conditions = [
            {name: self._blank(c[name]) for name in ("type", "status", "reason", "message") if name in c}
            for c in status.pop("conditions", [])
        ]
        for name in ("startTime", "completionTime"):
            if name in status:
                status[name] = "set"
        going = {}
        if "deletionTimestamp" in job["metadata"]:
            going = {"deleting": True}
            status.pop("failed", None)  # a race: were its pods let go, or deleted by the garbage collector first?
        generation = job["metadata"].get("generation")
        return {**self._blank_all(status), "conditions": conditions, "generation": generation, **going}

    def _blank_all(self, value):
        if isinstance(value, dict):
            return {key: self._blank_all(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._blank_all(item) for item in value]
        return self._blank(value) if isinstance(value, str) else value

    def _blank(self, text):
        for name, prefix in self._names.items():
            text = text.replace(name, f"{prefix}*")
        text = text.replace(self.uid, "UID") if self.uid else text
        text = re.sub(rf"({re.escape(self.key.name)}(-\d+)?-)[bcdfghjklmnpqrstvwxz2456789]{{5}}\b", r"\1*", text)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
        return re.sub(rf"(?<![\w-]){self.key.namespace}(?![\w-])", "NS", text)


def _is_generated(pod):
    return "generateName" in pod["metadata"]


def _index(pod):
    text = pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index", "-1")
    return int(text) if text.lstrip("-").isdigit() else -1
