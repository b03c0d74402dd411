"""
The least that a controller of TrainJobs can do: `python -m benchmarks.null_controller URL TOKEN`, until SIGTERM.

It watches TrainJobs and JobSets and writes as often as the operator does: for a new TrainJob a ConfigMap and a canned
JobSet, and for the second and the last status of a JobSet one of the TrainJob. It keeps nothing, decides nothing,
survives nothing. The standard library's json and aiohttp, as most would write it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from .objects import NAMESPACE, job_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TRAINJOBS: Final = "/apis/trainer.kubeflow.org/v1alpha1"
JOBSETS: Final = "/apis/jobset.x-k8s.io/v1alpha2"
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
NOW: Final = "2026-01-01T00:00:00Z"


class NullController:
    """Echoes events as writes. Each runs as a task of its own."""

    def __init__(self, session: aiohttp.ClientSession, url: str, tasks: asyncio.TaskGroup) -> None:
        self._session = session
        self._url = url
        self._tasks = tasks

    async def follow_train_jobs(self) -> None:
        async for event in self._watch(f"{TRAINJOBS}/trainjobs"):
            if event["type"] == "ADDED":
                self._tasks.create_task(self._on_train_job(event["object"]["metadata"]["name"]))

    async def follow_jobsets(self) -> None:
        async for event in self._watch(f"{JOBSETS}/jobsets"):
            name, status = event["object"]["metadata"]["name"], event["object"].get("status", {})
            counters = status.get("replicatedJobsStatus", [{}])
            if "conditions" in status:
                complete = {"type": "Complete", "status": "True", "reason": "Done", "message": "done"}
                self._report(name, {"conditions": [{**complete, "lastTransitionTime": NOW}], "jobsStatus": counters})
            elif counters[0].get("ready"):
                self._report(name, {"jobsStatus": counters})

    async def _on_train_job(self, name: str) -> None:
        metadata = {"name": f"{name}-snapshot", "namespace": NAMESPACE}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": "canned"}}
        await self._send("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", config_map, "application/json")
        path = f"{JOBSETS}/namespaces/{NAMESPACE}/jobsets/{name}?fieldManager=null&force=true"
        await self._send("PATCH", path, job_set(name), APPLY)

    def _report(self, name: str, status: dict[str, Any]) -> None:
        path = f"{TRAINJOBS}/namespaces/{NAMESPACE}/trainjobs/{name}/status"
        self._tasks.create_task(self._send("PATCH", path, {"status": status}, MERGE))

    async def _send(self, method: str, path: str, body: dict[str, Any], content_type: str) -> None:
        headers = {"Content-Type": content_type}
        async with self._session.request(method, self._url + path, data=json.dumps(body), headers=headers) as answer:
            json.loads(await answer.read())
            answer.raise_for_status()

    async def _watch(self, path: str) -> AsyncIterator[dict[str, Any]]:
        async with self._session.get(f"{self._url}{path}?watch=true") as answer:
            async for line in answer.content:
                yield json.loads(line)


async def main(url: str, token: str) -> None:
    """Follow both kinds until the server goes away."""
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "null-controller"}
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(headers=headers, timeout=timeout, read_bufsize=1 << 20) as session,
        asyncio.TaskGroup() as tasks,
    ):
        controller = NullController(session, url, tasks)
        tasks.create_task(controller.follow_train_jobs())
        tasks.create_task(controller.follow_jobsets())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
