"""
What this process remembers of its TrainJobs, and which events bring anything new to it.

Events that are no news have no pass: those of our own writes, and counters of a JobSet while a write of counters is due
anyway, which takes the last ones. They were nearly half of all passes in a life. The event of a write may come before
its answer, which says which event that is: so while a pass is under way, events are judged at its end. Two things are
news although they seem to be none, as the pass has not seen them: counters that come while it may write those that it
began with; and a status that we wrote, if a pass began before the cache showed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from .observe import Memory, only_counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api import trainer as api
    from ktrain.api.meta import Key, Object
    from ktrain.framework.env import Env
    from ktrain.plugins.jobset import JobSetState


class Memories:
    """Memories by the UID of the job. Also a handler of JobSets."""

    def __init__(self, env: Env) -> None:
        self._clock = env.clock
        self._memories: dict[str, Memory] = {}
        self._uids: dict[Key, str] = {}
        self._put_off: dict[str, list[Callable[[], bool]]] = {}
        """By UID of the jobs that have a pass: what would be news if it were judged now."""

    def of(self, uid: str) -> Memory:
        """Return what is remembered of a job."""
        return self._memories.get(uid, _BLANK)

    def change(self, uid: str, **changes: Any) -> None:  # noqa: ANN401 -- checked by `replace`
        """Remember something else of a job."""
        self._memories[uid] = replace(self.of(uid), **changes)

    def meet(self, key: Key, uid: str) -> str:
        """Note which job has a name now, none if `uid` is empty; returns the UID of another that had it, forgotten."""
        known = self._uids.get(key, "")
        if known == uid:
            return ""
        self._memories.pop(known, None)
        self._uids.pop(key, None)
        if uid:
            self._uids[key] = uid
        return known

    # A handler of JobSets

    def on_add(self, obj: JobSetState, *, initial: bool) -> None:
        """Its owner has a pass of its own."""

    def on_update(self, old: JobSetState, new: JobSetState) -> None:
        """Its owner has a pass of its own."""

    def on_delete(self, obj: JobSetState) -> None:
        """Remember how it ended: the pass to come finds it gone, and must not take finished work for lost."""
        owner = obj.metadata.controller
        if owner and owner.uid == self._uids.get(obj.key) and obj.has_ended:
            self.change(owner.uid, ended=obj)

    # Which events are news

    def begin(self, job: api.TrainJob) -> None:
        """Put off what is to be judged by what a pass over *job*, as the cache has it, writes."""
        uid = job.metadata.uid
        self._put_off[uid] = []
        if self.of(uid).status_version not in ("", job.metadata.resource_version):
            self.change(uid, status_version="")

    def end(self, uid: str) -> bool:
        """Whether there was any news during the pass."""
        return any(is_news() for is_news in self._put_off.pop(uid, ()))

    def _judge(self, uid: str, is_news: Callable[[], bool]) -> bool:
        if not is_news():
            return False
        put_off = self._put_off.get(uid)
        if put_off is None:
            return True
        put_off.append(is_news)
        return False

    def is_news_of_job(self, old: api.TrainJob, new: api.TrainJob) -> bool:
        """Whether a change of a TrainJob is more than what we wrote."""
        uid = new.metadata.uid
        return self._judge(uid, lambda: not self.of(uid).only_wrote_status(old, new))

    def is_news_of_child(self, child: Object) -> bool:
        """Whether a new JobSet or snapshot is another than what we made."""
        owner = child.metadata.controller
        return owner is None or self._judge(owner.uid, lambda: not self.of(owner.uid).made(child))

    def is_news_of_job_set(self, old: JobSetState, new: JobSetState) -> bool:
        """Whether a change of a JobSet is more than counters, which the next write takes along."""
        owner = new.metadata.controller
        if owner is None or owner.uid in self._put_off:
            return True
        due_s = self.of(owner.uid).status_due_s
        return due_s is None or self._clock.monotonic() >= due_s or not only_counted(old, new)


_BLANK: Final = Memory()
