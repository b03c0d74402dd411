"""
The least that a controller of TrainJobs can do: `python -m benchmarks.null_controller KUBECONFIG CANNED`.

It watches TrainJobs and JobSets and sends what the operator was seen to send (CANNED, see `Canned`): for a new TrainJob
its objects, one after the other, and for the second and the last status of a JobSet one of the TrainJob. At most 16
jobs are worked on at a time. It ends by SIGTERM, keeps nothing, decides nothing, survives nothing. The standard
library's json and aiohttp, as most would write it. Prints `ready`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .plain_session import plain_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import aiohttp

TRAIN_JOBS: Final = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"
JOBSETS: Final = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
CONCURRENCY: Final = 16


@dataclass(frozen=True, slots=True)
class Sent:
    """One write: `target` is path and query."""

    method: str
    target: str
    media: str
    body: str


@dataclass(frozen=True, slots=True)
class Canned:
    """What the operator sent in the life of one job, of this name and UID."""

    name: str
    uid: str
    objects: Sequence[Sent]
    statuses: Sequence[Sent]
    """The second and the last."""

    @classmethod
    def read(cls, text: str) -> Canned:
        """Read what `json.dumps` wrote of `dataclasses.asdict`."""
        fields = json.loads(text)
        return cls(
            fields["name"],
            fields["uid"],
            [Sent(**one) for one in fields["objects"]],
            [Sent(**one) for one in fields["statuses"]],
        )


class NullController:
    """Echoes events as writes. Each runs as a task of its own."""

    def __init__(self, session: aiohttp.ClientSession, url: str, canned: Canned, tasks: asyncio.TaskGroup) -> None:
        self._session = session
        self._url = url
        self._canned = canned
        self._tasks = tasks
        self._slots = asyncio.Semaphore(CONCURRENCY)

    async def follow_train_jobs(self) -> None:
        seen: set[str] = set()
        async for event in self._watch(TRAIN_JOBS):
            uid = event["object"]["metadata"]["uid"]
            if event["type"] == "ADDED" and uid not in seen:
                seen.add(uid)
                self._answer(self._canned.objects, event["object"]["metadata"]["name"], uid)

    async def follow_jobsets(self) -> None:
        async for event in self._watch(JOBSETS):
            name, status = event["object"]["metadata"]["name"], event["object"].get("status", {})
            counters = status.get("replicatedJobsStatus", [{}])
            if event["type"] == "DELETED" or not self._canned.statuses:
                continue
            if "conditions" in status:
                self._answer(self._canned.statuses[-1:], name, "")
            elif counters[0].get("ready"):
                self._answer(self._canned.statuses[:1], name, "")

    def _answer(self, writes: Sequence[Sent], name: str, uid: str) -> None:
        self._tasks.create_task(self._send_all(writes, name, uid))

    async def _send_all(self, writes: Sequence[Sent], name: str, uid: str) -> None:
        async with self._slots:
            for write in writes:
                target = write.target.replace(self._canned.name, name)
                body = write.body.replace(self._canned.name, name).replace(self._canned.uid, uid)
                await self._send(write.method, target, body, write.media)

    async def _send(self, method: str, target: str, body: str, media: str) -> None:
        headers = {"Content-Type": media, "Accept": "application/json"}
        async with self._session.request(method, self._url + target, data=body, headers=headers) as answer:
            json.loads(await answer.read())
            answer.raise_for_status()

    async def _watch(self, path: str) -> AsyncIterator[dict[str, Any]]:
        while True:  # a watch may end at any time, and a new one begins with all that is there
            async with self._session.get(f"{self._url}{path}?watch=true") as answer:
                print("ready", flush=True)
                async for line in answer.content:
                    yield json.loads(line)


async def main(kubeconfig: str, canned: str) -> None:
    """Follow both kinds until the server goes away."""
    found = Canned.read(await asyncio.to_thread(Path(canned).read_text))
    async with plain_session(kubeconfig) as (session, url), asyncio.TaskGroup() as tasks:
        controller = NullController(session, url, found, tasks)
        tasks.create_task(controller.follow_train_jobs())
        tasks.create_task(controller.follow_jobsets())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
