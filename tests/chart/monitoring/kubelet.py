"""What kubelets do to the pods of a test, by status only: which pods run, end, fail or cannot pull their image."""

from contextlib import suppress
from datetime import UTC, datetime

import anyio

from ktrain.api.core import PODS, untyped
from ktrain.api.jobset import JOBSET_NAME, RESTART_ATTEMPT
from ktrain.api.meta import Key
from ktrain.framework.errors import ApiError

ANY_PODS = untyped(PODS)
INDEX = "batch.kubernetes.io/job-completion-index"
SHORT_S = 3
PERIOD_S = 0.5


class Kubelets:
    """
    Gives scheduled pods the status that the name of their TrainJob asks for.

    Those with `short` in it succeed after some seconds, `failing` fail, `retry` fail in the first attempt; of `mixed`
    the pod of index 2 cannot pull its image and that of index 3 ends at once. All others run.
    """

    def __init__(self, client):
        self._client = client
        self._started_s = {}
        self.running = []
        """Namespaces and names of the pods that run."""

    async def run(self):
        while True:
            pods = (await self._client.list(ANY_PODS)).items
            for pod in pods:
                with suppress(ApiError):  # it changed or went meanwhile: the next round sees it
                    await self._settle(pod)
            self.running = [
                (pod["metadata"]["namespace"], pod["metadata"]["name"])
                for pod in pods
                if pod["status"].get("phase") == "Running"
            ]
            await anyio.sleep(PERIOD_S)

    async def _settle(self, pod):
        meta = pod["metadata"]
        key = Key(meta["namespace"], meta["name"])
        if meta.get("deletionTimestamp"):
            await self._client.delete(PODS, key, grace_period_s=0)
        elif pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            begun_s = self._started_s.setdefault(meta["uid"], anyio.current_time())
            wanted = _status(pod, anyio.current_time() - begun_s)
            if pod["status"].get("phase") != wanted["phase"] or not pod["status"].get("containerStatuses"):
                await self._client.patch(ANY_PODS, key, {"status": wanted}, subresource="status")


def _status(pod, age_s):
    labels = pod["metadata"]["labels"]
    job, attempt = labels.get(JOBSET_NAME, ""), labels.get(RESTART_ATTEMPT, "0")
    index = pod["metadata"].get("annotations", {}).get(INDEX, "0")
    if "mixed" in job and index == "2":
        return _with("Pending", {"waiting": {"reason": "ImagePullBackOff"}}, ready=False)
    if ("mixed" in job and index == "3") or ("short" in job and age_s >= SHORT_S):
        return _with("Succeeded", _terminated(0, "Completed"), ready=False)
    fails = "failing" in job or ("retry" in job and attempt == "0")
    if fails and age_s >= SHORT_S:
        return _with("Failed", _terminated(137, "OOMKilled"), ready=False)
    return _with("Running", {"running": {"startedAt": _now()}}, ready=True)


def _now():
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _terminated(code, reason):
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _now(), "startedAt": _now()}}


def _with(phase, state, *, ready):
    container = {"name": "node", "image": "i", "imageID": "i", "ready": ready, "restartCount": 0, "state": state}
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": _now()}]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()})
    return {"phase": phase, "startTime": _now(), "conditions": conditions, "containerStatuses": [container]}
