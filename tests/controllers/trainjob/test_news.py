"""What caches tell of our own writes is no news, and nothing else is taken for it."""

from datetime import UTC, datetime

import msgspec
import pytest

from ktrain.api import jobset
from ktrain.api.meta import Condition, Object, ObjectMeta, OwnerReference
from ktrain.api.trainer import TrainJob
from ktrain.controllers.trainjob.memories import Memories
from ktrain.controllers.trainjob.observe import Memory
from ktrain.framework.env import Env
from ktrain.plugins.jobset import JobSetState
from ktrain.plugins.jobset.state import JobSetStateSpec

MEMORY = Memory(job_set_version="7", snapshot_version="5", status_version="9")


def train_job(version, **metadata):
    return TrainJob(metadata=ObjectMeta(name="job", resource_version=version, generation=1, **metadata))


def test_the_status_that_was_written_is_no_news():
    assert MEMORY.only_wrote_status(train_job("8"), train_job("9"))
    assert not MEMORY.only_wrote_status(train_job("8"), train_job("10"))


@pytest.mark.parametrize(
    "changed",
    [
        {"generation": 2},
        {"labels": {"a": "b"}},
        {"annotations": {"a": "b"}},
        {"finalizers": ("a/b",)},
        {"deletion_timestamp": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_a_user_changed_before_it_is_news_also_if_a_list_tells_both_at_once(changed):
    meta = {"name": "job", "resource_version": "9", "generation": 1} | changed

    assert not MEMORY.only_wrote_status(train_job("8"), TrainJob(metadata=ObjectMeta(**meta)))


@pytest.mark.parametrize(("version", "is_ours"), [("5", True), ("7", True), ("8", False)])
def test_a_child_that_was_just_made_is_no_news(version, is_ours):
    assert MEMORY.made(Object(metadata=ObjectMeta(name="job", resource_version=version))) is is_ours


def job_set(version="1", conditions=(), *, suspend=False, active=0, **metadata):
    owner = OwnerReference("v", "TrainJob", "job", "uid", controller=True)
    meta = ObjectMeta(name="job", resource_version=version, owner_references=(owner,), **metadata)
    counters = (jobset.ReplicatedJobStatus("node", active=active),)
    status = jobset.JobSetStatus(conditions, replicated_jobs_status=counters)
    return JobSetState(metadata=meta, spec=JobSetStateSpec(suspend), status=status)


NEW_COUNTERS = job_set("2", active=2)


def memories(*, due_in_s):
    env = Env()
    found = Memories(env)
    found.change("uid", status_due_s=env.clock.monotonic() + due_in_s)
    return found


async def test_counters_are_no_news_while_a_write_of_counters_is_due():
    assert not memories(due_in_s=60).is_news_of_job_set(job_set(), NEW_COUNTERS)
    assert memories(due_in_s=0).is_news_of_job_set(job_set(), NEW_COUNTERS)
    assert Memories(Env()).is_news_of_job_set(job_set(), NEW_COUNTERS)


@pytest.mark.parametrize(
    "changed",
    [
        job_set("2", active=2, conditions=(Condition("Completed", "True", "Because", "it is so"),)),
        job_set("2", active=2, suspend=True),
        job_set("2", active=2, generation=2),
        job_set("2", active=2, labels={"a": "b"}),
        job_set("2", active=2, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)),
        msgspec.structs.replace(NEW_COUNTERS, status=None),
        msgspec.structs.replace(NEW_COUNTERS, status=msgspec.structs.replace(NEW_COUNTERS.status, restarts=1)),
    ],
)
async def test_anything_else_of_a_jobset_is_news_at_any_time(changed):
    assert memories(due_in_s=60).is_news_of_job_set(job_set(), changed)


def test_an_event_that_comes_before_the_answer_to_its_write_is_judged_when_the_pass_ends():
    memories = Memories(Env())
    ours, theirs = (Object(metadata=job_set(version).metadata) for version in ("7", "8"))
    for children, is_news in (([ours], False), ([theirs], True), ([ours, theirs], True), ([], False)):
        memories.change("uid", job_set_version="")
        memories.begin(TrainJob(metadata=ObjectMeta(name="job", uid="uid")))
        assert not any(memories.is_news_of_child(child) for child in children)
        memories.change("uid", job_set_version="7")

        assert memories.end("uid") is is_news
    assert not memories.is_news_of_child(ours)
    assert memories.is_news_of_child(theirs)
