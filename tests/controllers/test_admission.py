"""What is asked before TrainJobs and runtimes are stored."""

import copy
import random
from datetime import UTC, datetime

import msgspec
import pytest
import structlog

from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.controllers.admission import (
    MISSING_RUNTIME,
    default_runtime,
    default_train_job,
    validate_runtime,
    validate_train_job,
    with_processes,
)
from ktrain.pipeline import Context, Registry
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.torch import Torch

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
STAMP = "2026-05-01T12:00:00Z"
OLD = "2001-02-03T04:05:06Z"


def job(kind: str = "TrainingRuntime", **spec) -> dict:
    ref = {"name": "rt", "kind": kind, "apiGroup": "trainer.kubeflow.org"}
    return {"metadata": {"name": "job", "namespace": "team"}, "spec": {"runtimeRef": ref} | spec}


def runtime(*, labels: dict | None = None, jobs: list | None = None, kind: str = "ClusterTrainingRuntime") -> dict:
    spec = {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": jobs or []}}}
    return {"kind": kind, "metadata": {"name": "rt", "labels": labels or {}}, "spec": spec}


def validate(new: dict, old: dict | None = None, found: dict | None = None):
    def lookup(resource, key):
        where = {api.TRAINING_RUNTIMES: Key("team", "rt"), api.CLUSTER_TRAINING_RUNTIMES: Key("", "rt")}
        if found is None or key != where.get(resource):
            return None
        return msgspec.json.decode(msgspec.json.encode(found), type=resource.type)

    context = Context(lookup, NOW, random.Random(1), structlog.get_logger(), lambda: 0.0)
    return validate_train_job(Registry([JobSet(), Torch()]), new, old, context)


# Defaults


def patches(*entries: dict) -> dict:
    return job(runtimePatches=list(entries))


def test_defaults_leave_nonsense_to_the_schema(mistyped):
    template = {"spec": {"replicatedJobs": [{"name": "node"}]}}
    whole = patches({"manager": "a/b", "time": OLD, "trainingRuntimeSpec": {"template": template}}, {"manager": "c/d"})
    for body in mistyped(whole):
        before = copy.deepcopy(body)
        default_train_job(body, whole, NOW)
        default_train_job(whole, body, NOW)

        assert body == before


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {"manager": "a/b"}, STAMP),
        (None, {"manager": "a/b", "time": OLD}, OLD),
        ({"manager": "a/b", "time": OLD}, {"manager": "a/b"}, OLD),
        ({"manager": "a/b", "time": OLD}, {"manager": "a/b", "time": "2002-02-02T02:02:02Z"}, OLD),
        ({"manager": "a/b", "time": OLD}, {"manager": "a/b", "time": OLD, "trainingRuntimeSpec": {}}, STAMP),
        ({"manager": "c/d", "time": OLD}, {"manager": "a/b"}, STAMP),
        ({"manager": "c/d", "time": OLD}, {"manager": "a/b", "time": "2002-02-02T02:02:02Z"}, "2002-02-02T02:02:02Z"),
        ({"manager": "a/b"}, {"manager": "a/b", "time": OLD}, None),
    ],
)
def test_the_time_of_a_patch_is_when_it_was_last_changed(old, new, expected):
    defaulted = default_train_job(patches(new), patches(old) if old else None, NOW)

    assert defaulted["spec"]["runtimePatches"][0].get("time") == expected


def test_defaulting_changes_neither_input_nor_what_it_need_not():
    plain, given = job(), patches({"manager": "a/b"})
    default_train_job(given, None, NOW)

    assert default_train_job(plain, None, NOW) is plain
    assert given == patches({"manager": "a/b"})
    assert default_train_job(job(runtimePatches="no list"), None, NOW) == job(runtimePatches="no list")


# TrainJobs


def test_the_runtime_must_exist_and_is_said_to_in_gos_words():
    ref = '{"name":"rt","apiGroup":"trainer.kubeflow.org","kind":"%s"}'
    namespaced, cluster = validate(job()), validate(job("ClusterTrainingRuntime"))

    assert namespaced.message == (
        f"spec.runtimeRef: Invalid value: {ref % 'TrainingRuntime'}: TrainingRuntime.trainer.kubeflow.org "
        '"rt" not found: specified trainingRuntime must be created before the TrainJob is created'
    )
    assert cluster.message.startswith(f"spec.RuntimeRef: Invalid value: {ref % 'ClusterTrainingRuntime'}: ")
    assert cluster.message.endswith(
        'ClusterTrainingRuntime.trainer.kubeflow.org "rt" not found: '
        "specified clusterTrainingRuntime must be created before the TrainJob is created"
    )
    assert MISSING_RUNTIME in namespaced.message


def test_a_job_whose_runtime_is_gone_can_still_be_updated():
    assert validate(job(suspend=False), old=job(suspend=True)).allowed


def patched_jobs(*names: str, pool: str = "a", manager: str = "a/b") -> dict:
    node_selector = {"template": {"spec": {"template": {"spec": {"nodeSelector": {"pool": pool}}}}}}
    jobs = [{"name": name, **node_selector} for name in names]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


GONE = "must not have replicated job that doesn't exist in the runtime job template"


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"suspend": False}, False),
        ({"runtimePatches": [patched_jobs("gone", pool="b")]}, True),
        ({"runtimePatches": [patched_jobs("typo")]}, True),
        ({"runtimePatches": [patched_jobs("gone"), patched_jobs("node", manager="c/d")]}, False),
        ({"runtimePatches": [patched_jobs("gone"), patched_jobs("never", manager="c/d")]}, True),
        ({"runtimePatches": [patched_jobs("gone", "never")]}, True),
    ],
)
def test_an_update_is_not_refused_for_what_its_runtime_has_become(change, refused):
    """Kueue could not take back a job whose runtime has lost the part that the job patches."""
    old = job("ClusterTrainingRuntime", suspend=True, runtimePatches=[patched_jobs("gone")])
    found = runtime(jobs=[{"name": "node"}])
    verdict = validate({**old, "spec": old["spec"] | change}, old, found)

    assert GONE in validate(old, found=found).message
    assert verdict.allowed is not refused
    assert (GONE in verdict.message) is refused


def test_of_what_is_being_deleted_nothing_is_asked():
    """The garbage collector takes a finalizer off it, and its foreground deletion would never end."""
    deleted = {"name": "job", "namespace": "team", "deletionTimestamp": STAMP}
    assert validate(job("Fancy") | {"metadata": deleted}, job("Fancy")).allowed

    wrong = runtime(jobs=[STEP])
    assert not validate_runtime(Registry([]), wrong, wrong).allowed
    assert validate_runtime(Registry([]), wrong | {"metadata": {"deletionTimestamp": STAMP}}, wrong).allowed


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"runtimeRef": {"name": "x", "kind": "Fancy"}}, "unsupported runtime: Fancy.trainer.kubeflow.org"),
        ({"runtimeRef": {"name": "x", "kind": "", "apiGroup": ""}}, "unsupported runtime: "),
        (None, "unsupported runtime: "),
    ],
)
def test_only_two_kinds_of_runtimes_are_supported(spec, message):
    new = {"metadata": {"name": "job", "namespace": "team"}} | ({"spec": spec} if spec else {})

    assert validate(new).message == message
    assert not validate(new).allowed


def test_a_deprecated_cluster_runtime_warns_and_a_namespaced_one_does_not():
    deprecated = runtime(labels={"trainer.kubeflow.org/support": "deprecated"})

    assert (
        validate(job("ClusterTrainingRuntime"), found=deprecated)
        .warnings[0]
        .startswith('Referenced ClusterTrainingRuntime "rt" is deprecated and will be removed')
    )
    assert validate(job(), found=deprecated).warnings == ()


def test_all_plugins_are_heard():
    new = job(trainer={"env": [{"name": "PET_NNODES"}]}, runtimePatches=[{"manager": "foo"}])
    message = validate(new, found=runtime()).message

    assert message.startswith("[spec.runtimePatches.manager: ")
    assert "spec.trainer.env: Invalid value" in message


def variables(divisor):
    reference = {"resource": "limits.cpu", "divisor": divisor}
    return [{"name": "A", "value": "divisor"}, {"name": "E", "valueFrom": {"resourceFieldRef": reference}}]


@pytest.mark.parametrize(
    ("place", "spec"),
    [
        ("trainer", {"trainer": {"env": variables("1e.5")}}),
        ("initializer.dataset", {"initializer": {"dataset": {"env": variables("1e.5")}}}),
        ("initializer.model", {"initializer": {"model": {"env": variables("1e.5")}}}),
    ],
)
def test_a_divisor_that_is_no_quantity_is_the_trainjobs_fault_and_no_plugins(place, spec):
    verdict = validate(job(**spec), found=runtime())

    path = f"spec.{place}.env[1].valueFrom.resourceFieldRef.divisor"
    assert verdict.message.startswith(f"spec: Forbidden: {path}: '1e.5' is not a quantity: expected a number")
    assert not verdict.is_ours


@pytest.mark.parametrize("divisor", ["1.250", "0", 1])
def test_a_divisor_may_be_any_quantity(divisor):
    assert validate(job(trainer={"env": variables(divisor)}), found=runtime()).allowed


# Runtimes

STEP = {
    "name": "node",
    "replicas": 2,
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    },
}


def created(body):
    return validate_runtime(Registry([]), body, None)


def updated(body):
    return validate_runtime(Registry([]), body, body)


def test_a_labelled_step_has_one_replica_and_its_container():
    verdict = created(runtime(jobs=[{"name": "free", "replicas": 5}, STEP]))

    assert verdict.message == (
        "[spec.template.spec.replicatedJobs[1].replicas: Invalid value: 2: always must be 1, "
        "spec.template.spec.replicatedJobs[1].template.spec.template.spec.containers: "
        'Invalid value: [{"name":"main"}]: must contain the required container for the ancestor: trainer]'
    )


def test_updates_are_checked_of_cluster_runtimes_only():
    assert not updated(runtime(jobs=[STEP])).allowed
    assert updated(runtime(jobs=[STEP], kind="TrainingRuntime")).allowed
    assert not created(runtime(jobs=[STEP], kind="TrainingRuntime")).allowed


def test_creating_a_deprecated_cluster_runtime_warns():
    deprecated = {"trainer.kubeflow.org/support": "deprecated"}

    assert len(created(runtime(labels=deprecated)).warnings) == 1
    assert updated(runtime(labels=deprecated)).warnings == ()
    assert created(runtime(labels=deprecated, kind="TrainingRuntime")).warnings == ()


class Acme:
    name = "acme"
    schemas = {"mlPolicy": {"type": "object", "properties": {"port": {"type": "integer"}}}}

    def validate(self, info, job, old, ctx):
        return {}["port"]


def with_plugin(name, **config):
    body = runtime(kind="TrainingRuntime")
    body["spec"]["mlPolicy"] = {"plugin": {"name": name, "config": config}}
    return body


@pytest.mark.parametrize(
    ("new", "old", "message", "warning"),
    [
        (with_plugin("acme", port=1), None, "", ""),
        (with_plugin("acme", port="a"), None, 'spec.mlPolicy.plugin.config.port: Invalid value: "string"', ""),
        (with_plugin("acme", prot=1), None, "spec.mlPolicy.plugin.config.prot: unknown field", ""),
        (with_plugin("acme", port="a"), with_plugin("acme", port=1), "spec.mlPolicy.plugin.config.port: Invalid", ""),
        (with_plugin("acme", port="a"), with_plugin("acme", port="a"), "", ""),
        (with_plugin("acne", port=1), None, "", 'spec.mlPolicy.plugin names "acne", and no such plugin is installed'),
        (with_plugin("acne"), with_plugin("acne"), "", ""),
    ],
)
def test_a_runtime_is_refused_for_what_its_plugin_refuses_and_warned_of_one_that_is_not_there(
    new, old, message, warning
):
    verdict = validate_runtime(Registry([Acme()]), new, old)

    assert verdict.allowed == (not message)
    assert verdict.message.startswith(message)
    assert len(verdict.warnings) == bool(warning)
    assert all(text.startswith(warning) for text in verdict.warnings)


def test_a_slot_that_its_plugin_does_not_take_is_warned_of():
    body = with_plugin("acme")
    body["spec"]["podGroupPolicy"] = body["spec"].pop("mlPolicy")

    (warning,) = validate_runtime(Registry([Acme()]), body, None).warnings
    assert warning == (
        'spec.podGroupPolicy.plugin names "acme", and no such plugin is installed; there are: none;'
        " TrainJobs are refused meanwhile"
    )


TRAINER = {
    "name": "node",
    "template": {
        "metadata": {"labels": {api.ANCESTOR_LABEL: "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}},
    },
}


def test_a_new_job_is_warned_of_fields_without_effect_and_an_old_one_is_not():
    patch = {"manager": "a/b", "trainingRuntimeSpec": {"template": {"metadata": {"name": "other"}}}}
    new, found = job(trainer={"numNodes": 2}, runtimePatches=[patch]), runtime(jobs=[TRAINER])

    (warning,) = validate(new, found=found).warnings
    assert warning.startswith("spec.runtimePatches[0].trainingRuntimeSpec.template.metadata.name: no effect, because ")
    assert validate(new, new, found).warnings == ()


def test_a_job_that_is_refused_is_not_warned_as_well():
    verdict = validate(job(trainer={"image": "i", "env": [{"name": "PET_NNODES"}]}), found=runtime())

    assert not verdict.allowed
    assert verdict.warnings == ()


def test_a_job_that_kubeflow_is_recorded_to_take_in_silence_is_not_warned():
    found = runtime(jobs=[TRAINER])
    del found["spec"]["mlPolicy"]

    assert validate(job(trainer={"resourcesPerNode": {"limits": {"cpu": "1"}}}), found=found).warnings == ()


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("auto", {"processesPerNode": "auto"}),
        ("cpu", {"processesPerNode": "cpu"}),
        ("gpu", {"processesPerNode": "gpu"}),
        ("5", {"numProcPerNode": 5}),
        (5, {"numProcPerNode": 5}),
        ("many", {"numProcPerNode": "many"}),
        ("-1", {"numProcPerNode": "-1"}),
    ],
)
def test_processes_per_node_are_stored_as_typed_clients_can_read_them(said, stored):
    given = job(trainer={"image": "i", "numProcPerNode": said})
    before = copy.deepcopy(given)

    assert with_processes(given)["spec"]["trainer"] == {"image": "i"} | stored
    assert given == before


def test_processes_of_nonsense_are_left_to_the_schema(mistyped):
    for body in mistyped(job(trainer={"numProcPerNode": "auto"})):
        before = copy.deepcopy(body)
        with_processes(body)

        assert body == before


def mpi_runtime(*jobs, **mpi):
    return runtime(jobs=[{"name": name} for name in jobs]) | {
        "spec": {"mlPolicy": {"mpi": mpi}, "template": {"spec": {"replicatedJobs": [{"name": name} for name in jobs]}}}
    }


@pytest.mark.parametrize("name", ["Intel", "MPICH"])
def test_another_mpi_by_the_proposals_field_is_the_variant(name):
    given = mpi_runtime("node", "launcher", mpiImplementation=name, numProcPerNode=2)
    before = copy.deepcopy(given)

    assert default_runtime(given)["spec"] == before["spec"] | {
        "mlPolicy": {"mpi": {"mpiImplementation": "", "variant": name, "numProcPerNode": 2}}
    }
    assert given == before


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("Intel", {"mpiImplementation": "", "variant": "Intel"}),
        ("MPICH", {"mpiImplementation": "", "variant": "MPICH"}),
        ("OpenMPI", {"mpiImplementation": "OpenMPI"}),
        ("", {"mpiImplementation": "", "variant": "Intel"}),
    ],
)
def test_an_mpi_that_was_moved_gives_way_to_what_is_said_now(said, stored):
    old = default_runtime(mpi_runtime("launcher", mpiImplementation="Intel"))
    merged = mpi_runtime("launcher", mpiImplementation=said, variant="Intel")

    assert default_runtime(merged, old)["spec"]["mlPolicy"]["mpi"] == stored


@pytest.mark.parametrize(
    "given",
    [
        mpi_runtime("node", mpiImplementation="MPICH"),
        mpi_runtime("launcher", mpiImplementation="OpenMPI"),
        mpi_runtime("launcher", mpiImplementation="Fast"),
        mpi_runtime("launcher", mpiImplementation="Intel", variant="MPICH"),
        mpi_runtime("launcher"),
        runtime(),
    ],
)
def test_other_runtimes_stay_as_they_are_said(given):
    assert default_runtime(given) is given


def test_defaults_of_runtimes_leave_nonsense_to_the_schema(mistyped):
    for body in mistyped(mpi_runtime("launcher", mpiImplementation="MPICH")):
        before = copy.deepcopy(body)
        default_runtime(body)

        assert body == before
