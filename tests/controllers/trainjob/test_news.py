"""What caches tell of our own writes is no news, and nothing else is taken for it."""

from datetime import UTC, datetime

import pytest

from ktrain.api.meta import Object, ObjectMeta
from ktrain.api.trainer import TrainJob
from ktrain.controllers.trainjob.observe import Memory

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
