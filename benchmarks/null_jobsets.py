"""
The least that a controller of JobSets can do: `python -m benchmarks.null_jobsets KUBECONFIG`, until SIGTERM.

It watches JobSets and fires for each new one the writes that the controller makes, canned: a Service, a Job for each
replicated job, a status. It keeps nothing, decides nothing, survives nothing. The standard library's json and aiohttp,
as most would write it. Prints `ready`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from .objects import NAMESPACE
from .plain_session import plain_session

if TYPE_CHECKING:
    import aiohttp

JOBSETS: Final = "/apis/jobset.x-k8s.io/v1alpha2"
JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
SERVICES: Final = f"/api/v1/namespaces/{NAMESPACE}/services"
KEYS: Final = ("jobset-name", "jobset-uid", "replicatedjob-name", "replicatedjob-replicas", "global-replicas")
MORE_KEYS: Final = ("job-index", "job-global-index", "group-name", "group-replicas", "job-group-index", "job-key")


class NullController:
    """Echoes new JobSets as writes. Each runs as a task of its own."""

    def __init__(self, session: aiohttp.ClientSession, url: str, tasks: asyncio.TaskGroup) -> None:
        self._session = session
        self._url = url
        self._tasks = tasks

    async def follow(self) -> None:
        seen: set[str] = set()
        while True:  # a watch may end at any time, and a new one begins with all that is there
            async with self._session.get(f"{self._url}{JOBSETS}/jobsets?watch=true") as answer:
                print("ready", flush=True)
                async for line in answer.content:
                    event = json.loads(line)
                    uid = event["object"]["metadata"].get("uid", "")
                    if event["type"] == "ADDED" and uid not in seen:
                        seen.add(uid)
                        self._tasks.create_task(self._on_jobset(event["object"]))

    async def _on_jobset(self, jobset: dict[str, Any]) -> None:
        name, replicated_jobs = jobset["metadata"]["name"], jobset["spec"]["replicatedJobs"]
        await self._send("POST", SERVICES, service(jobset), "application/json")
        for rj in replicated_jobs:
            await self._send("POST", JOBS, job(jobset, rj), "application/json")
        counters = [
            {"name": rj["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
            for rj in replicated_jobs
        ]
        path = f"{JOBSETS}/namespaces/{NAMESPACE}/jobsets/{name}/status"
        status = {"status": {"restarts": 0, "replicatedJobsStatus": counters}}
        await self._send("PATCH", path, status, "application/merge-patch+json")

    async def _send(self, method: str, path: str, body: dict[str, Any], content_type: str) -> None:
        headers = {"Content-Type": content_type}
        async with self._session.request(method, self._url + path, data=json.dumps(body), headers=headers) as answer:
            await answer.read()
            answer.raise_for_status()


def owner(jobset: dict[str, Any]) -> dict[str, Any]:
    metadata = jobset["metadata"]
    named = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": metadata["name"]}
    return {**named, "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def service(jobset: dict[str, Any]) -> dict[str, Any]:
    name = jobset["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "ownerReferences": [owner(jobset)]},
        "spec": {"clusterIP": "None", "selector": {"jobset.sigs.k8s.io/jobset-name": name}},
    }


def job(jobset: dict[str, Any], rj: dict[str, Any]) -> dict[str, Any]:
    """Of the size that the controller's have: the same number of keys, twice as labels and twice as annotations."""
    keys = {f"jobset.sigs.k8s.io/{key}": jobset["metadata"]["name"] for key in (*KEYS, *MORE_KEYS, "restart-attempt")}
    marks = {"labels": keys, "annotations": keys}
    spec = rj["template"]["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **marks,
            "name": f"{jobset['metadata']['name']}-{rj['name']}-0",
            "ownerReferences": [owner(jobset)],
        },
        "spec": {**spec, "template": {**spec["template"], "metadata": marks}},
    }


async def main(kubeconfig: str) -> None:
    """Follow JobSets until the server goes away."""
    async with plain_session(kubeconfig) as (session, url), asyncio.TaskGroup() as tasks:
        await NullController(session, url, tasks).follow()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
