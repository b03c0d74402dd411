"""What decoded objects are kept as: nothing that is not theirs, and together what is alike."""

import tracemalloc
from itertools import count, islice

import msgspec
import pytest

from ktrain.api.core import CONFIG_MAPS, SECRETS
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Alike, Object, Resource
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.client.codec import codec_for
from ktrain.framework.client.keeping import MAX_PART_BYTES, MAX_PARTS
from ktrain.plugins.jobset import JOB_SET_STATES

COUNTERS = {"name": "node", "active": 1, "ready": 1}
CONDITION = {"type": "Suspended", "status": "True", "reason": "Suspended", "message": "TrainJob is suspended"}
TRAINER = {"image": "registry.example/train:v1", "command": ["python", "train.py"], "args": ["--lr", "0.1"]}
TRAIN_JOB = {
    "spec": {
        "runtimeRef": {"name": "mpi"},
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
        "trainer": TRAINER,
    },
    "status": {"conditions": [CONDITION], "jobsStatus": [COUNTERS, {**COUNTERS, "name": "launcher"}]},
}
SIZE = {"spec": {"parallelism": 2, "completions": 2}}
JOB_SET = {
    "spec": {
        "replicatedJobs": [
            {"name": "node", "template": SIZE},
            {"name": "launcher", "template": SIZE, "dependsOn": [{"name": "node", "status": "Ready"}]},
        ]
    },
    "status": {"conditions": [CONDITION], "replicatedJobsStatus": [COUNTERS, {**COUNTERS, "name": "launcher"}]},
}


class Flat(Object, frozen=True):
    """A kind with raw parts at two depths."""

    one: msgspec.Raw = msgspec.Raw()
    other: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    many: tuple[msgspec.Raw, ...] = ()
    named: dict[str, msgspec.Raw] = {}


class Deep(Object, frozen=True):
    """A kind whose raw parts are further down."""

    flat: Flat | None = None
    flats: list[Flat] = []


class Numbered(Object, frozen=True):
    """A kind with a part that others of it may have alike."""

    numbers: Alike[tuple[int, ...]] = ()


NUMBERED = Resource("", "v1", "Numbered", "numbereds", namespaced=True, type=Numbered)


def read(resource, obj, **metadata):
    return codec_for(resource).decode(msgspec.json.encode({"metadata": metadata, **obj}))


def test_raw_parts_do_not_keep_the_answer_they_came_in():
    resource = Resource("", "v1", "Deep", "deeps", namespaced=True, type=Deep)
    flat = {"one": {"a": 1}, "other": {"b": 2}, "many": [1, 2], "named": {"x": [3]}}
    body = msgspec.json.encode({"metadata": {}, "items": [{"flat": flat, "flats": [flat]}], "padding": "x" * 100_000})

    page = codec_for(resource).decode_page(body)

    assert page.bad == []
    (item,) = page.items

    for part in (item.flat, *item.flats):
        raws = [part.one, part.other, *part.many, *part.named.values()]
        assert [bytes(raw) for raw in raws] == [b'{"a":1}', b'{"b":2}', b"1", b"2", b"[3]"]
        assert all(len(memoryview(raw).obj) < 20 for raw in raws)


def test_of_metadata_what_is_the_same_in_many_objects_is_held_once():
    owner = {"kind": "TrainJob", "name": "job", "uid": "1-2-3", "controller": True}
    job = read(CONFIG_MAPS, {}, name="job", namespace="team", uid="1-2-3").metadata
    one, other = (
        read(CONFIG_MAPS, {}, name=name, namespace="team", ownerReferences=[owner]).metadata for name in ("a", "b")
    )

    assert one.namespace is other.namespace is job.namespace
    assert (one.labels, one.annotations) == ({}, {})
    assert one.labels is job.labels
    assert one.owner_references[0].uid is job.uid
    assert one.owner_references is other.owner_references


@pytest.mark.parametrize(
    ("resource", "obj", "parts"),
    [
        (TRAIN_JOBS, TRAIN_JOB, ["spec.runtime_ref", "spec.managed_by", "spec.trainer.image", "status.jobs_status"]),
        (JOB_SET_STATES, JOB_SET, ["spec", "status.replicated_jobs_status"]),
        (JOBSETS, JOB_SET, ["status.replicated_jobs_status"]),
    ],
    ids=["TrainJob", "JobSet as the operator keeps it", "JobSet"],
)
def test_parts_that_many_objects_have_alike_are_held_once(resource, obj, parts):
    one, other = (read(resource, obj, name=name) for name in ("a", "b"))

    for part in parts:
        of_one, of_other = one, other
        for name in part.split("."):
            of_one, of_other = getattr(of_one, name), getattr(of_other, name)
        assert of_one is of_other, part
    for name in ("type", "status", "reason", "message"):
        assert getattr(one.status.conditions[0], name) is getattr(other.status.conditions[0], name)


def test_words_of_a_command_are_held_once_and_absent_stays_absent():
    one, other = (read(TRAIN_JOBS, TRAIN_JOB, name=name).spec.trainer for name in ("a", "b"))
    bare = read(TRAIN_JOBS, {"spec": {"trainer": {"command": []}}}).spec

    assert one.command == ("python", "train.py")
    assert all(word is same for word, same in zip(one.command, other.command, strict=True))
    assert (bare.trainer.command, bare.trainer.image, bare.managed_by) == ((), None, None)


def test_what_differs_stays_different():
    more = {**TRAIN_JOB, "status": {"jobsStatus": [{**COUNTERS, "ready": 0}]}}
    one, other = read(TRAIN_JOBS, TRAIN_JOB), read(TRAIN_JOBS, more)
    job_set = read(JOBSETS, {"status": {"replicatedJobsStatus": [{**COUNTERS, "ready": 0}]}})

    assert [one.status.jobs_status[0].ready, other.status.jobs_status[0].ready] == [1, 0]
    # The counters of a TrainJob and those of a JobSet say the same, and are of two types.
    assert type(job_set.status.replicated_jobs_status[0]) is not type(other.status.jobs_status[0])
    assert len(job_set.status.replicated_jobs_status) == 1


def test_parts_that_differ_in_each_object_go_with_the_objects():
    """Else whatever passes by would stay: parts that were not seen for long are forgotten."""

    numbers = count(1000)

    def pass_by(objects):
        for number in islice(numbers, objects):
            read(NUMBERED, {"numbers": [number] * 100})
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        filled = pass_by(MAX_PARTS)
        grown = pass_by(2 * MAX_PARTS) - filled
    finally:
        tracemalloc.stop()

    assert grown < filled / 10


def test_of_parts_that_are_large_everybody_keeps_his_own():
    """Owner references are written by anybody, as many as fit into an object: together they would fill the memory."""
    some, many = [1] * (MAX_PART_BYTES // 4), [1] * MAX_PART_BYTES

    for numbers, is_shared in ((some, True), (many, False)):
        one, other = (read(NUMBERED, {"numbers": numbers}, name=name).numbers for name in ("a", "b"))
        assert (one == other, one is other) == (True, is_shared)


def test_an_mpi_job_takes_less_than_three_kilobytes_of_objects():
    """Each of TrainJob, JobSet, key pair, host file and snapshot; without what was before, and without the cache."""
    metadata = {"namespace": "team", "creationTimestamp": "2026-11-22T08:00:00Z", "generation": 1}
    kept = []

    def keep(number):
        job, uid = f"job-{number:05}", f"2f1d6a38-5a0e-4c1e-9d55-{number:012}"
        owner = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "name": job, "uid": uid, "controller": True}
        kept.append(read(TRAIN_JOBS, TRAIN_JOB, **metadata, name=job, uid=uid, resourceVersion=f"1{number}"))
        children = [
            (JOB_SET_STATES, JOB_SET, ""),
            *((SECRETS, {}, suffix) for suffix in ("-key", "-hosts", "-runtime")),
        ]
        for resource, obj, suffix in children:
            own = {"name": f"{job}{suffix}", "uid": f"{uid[:-1]}{suffix}", "resourceVersion": f"2{number}"}
            kept.append(read(resource, obj, **metadata, **own, ownerReferences=[owner]))

    keep(0)
    tracemalloc.start()
    try:
        for number in range(1, 101):
            keep(number)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(kept) == 505
    assert taken / 100 < 3 * 1024
