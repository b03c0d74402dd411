"""How long, how many, how large: every bound of TrainJobs and runtimes, at it and one beyond; and what stays fixed."""

import copy
from functools import reduce

import pytest

POD = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
CONTAINER = f"{POD}.containers[0]"
TARGET = "spec.mlPolicy.torch.envInjection.targets[0]"
COUNTERS = dict.fromkeys(("active", "failed", "ready", "succeeded", "suspended"), 0)
NOW = "2026-01-02T03:04:05Z"


def words(count: int) -> list[str]:
    return [f"w{index}" for index in range(count)]


def named(count: int, **rest) -> list[dict]:
    return [{"name": word, **rest} for word in words(count)]


def target(job: str) -> dict:
    return {"jobName": job, "containerNames": ["c"]}


def patch(manager: str = "acme.io/x", **pod) -> dict:
    container = {"name": "c"} | pod.pop("container", {})
    spec = {"containers": [container]} | pod
    job = {"name": "node", "template": {"spec": {"template": {"spec": spec}}}}
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


def train_job(status: dict | None = None, **spec) -> dict:
    document = {"metadata": {"name": "j"}, "spec": {"runtimeRef": {"name": "r"}} | spec}
    return document | ({"status": status} if status else {})


def runtime(jobset: dict | None = None, **spec) -> dict:
    return {"metadata": {"name": "r"}, "spec": {"template": {"spec": jobset or {}}} | spec}


def with_value(document: dict, path: str, value: object) -> dict:
    """The document with a value at a path that is there but for its last step."""
    changed = copy.deepcopy(document)
    *way, last = [int(part) if part.isdigit() else part for part in path.replace("[", ".").replace("]", "").split(".")]
    reduce(lambda at, step: at[step], way, changed)[last] = value
    return changed


def fields(schema, document: dict, old: dict | None = None) -> set[str]:
    """Where something is wrong, but for the cause that tells that no rules were asked."""
    found = schema.validate(schema.default(document), old and schema.default(old))
    return {cause.field for cause in found} - {"<nil>"}


JOB = train_job(
    initializer={"dataset": {}, "model": {}},
    trainer={},
    runtimePatches=[patch()],
    status={"jobsStatus": [{"name": "n", **COUNTERS}], "trainerStatus": {"lastUpdatedTime": NOW, "metrics": []}},
)


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ("spec.runtimeRef.name", ["r", "r" * 253], ["", "r" * 254]),
        ("spec.runtimeRef.apiGroup", ["", "g" * 253], ["g" * 254]),
        ("spec.runtimeRef.kind", ["", "k" * 253], ["k" * 254]),
        ("spec.initializer.dataset.storageUri", ["", "a+b.c-d://x" + "y" * 2037], ["s3://" + "y" * 2044, "9x://y"]),
        ("spec.initializer.dataset.env", [named(128)], [named(129)]),
        ("spec.initializer.model.storageUri", ["pvc://c/p"], ["invalid-uri", "://x", "s3://"]),
        ("spec.initializer.model.env", [named(128)], [named(129)]),
        ("spec.trainer.image", ["", "i" * 500], ["i" * 501]),
        ("spec.trainer.command", [[], words(128)], [words(129)]),
        ("spec.trainer.args", [[], words(128)], [words(129)]),
        ("spec.trainer.env", [named(128)], [named(129)]),
        ("spec.trainer.numNodes", [0, 2**31 - 1], [-1]),
        ("spec.trainer.numProcPerNode", [1], [0, -1]),
        ("spec.activeDeadlineSeconds", [1, 2**40], [0, -1]),
        ("spec.managedBy", ["kueue.x-k8s.io/multikueue"], ["", "acme.io/me"]),
        ("spec.runtimePatches", [[{"manager": f"a.io/{w}"} for w in words(16)]], [[{"manager": w} for w in words(17)]]),
        ("spec.runtimePatches[0].manager", ["m" * 253], ["", "m" * 254]),
        ("spec.runtimePatches[0].time", [NOW], ["yesterday"]),
        (POD.split("[0].template.spec.template", maxsplit=1)[0].removesuffix("[0]"), [named(100)], [named(101)]),
        (POD.removesuffix(".template.spec.template.spec") + ".name", ["n" * 253], ["", "n" * 254]),
        (f"{POD}.serviceAccountName", ["s" * 253], ["s" * 254]),
        (f"{POD}.volumes", [named(128)], [named(129)]),
        (f"{POD}.initContainers", [named(64)], [named(65)]),
        (f"{POD}.containers", [named(64)], [named(65)]),
        (f"{POD}.imagePullSecrets", [named(64)], [named(65)]),
        (f"{POD}.terminationGracePeriodSeconds", [0], [-1]),
        (f"{POD}.tolerations", [[{"key": "k"}] * 128], [[{"key": "k"}] * 129]),
        (f"{POD}.schedulingGates", [named(16)], [named(17)]),
        (f"{CONTAINER}.name", ["n" * 253], ["", "n" * 254]),
        (f"{CONTAINER}.env", [named(128)], [named(129)]),
        (f"{CONTAINER}.volumeMounts", [named(128, mountPath="/m")], [named(129, mountPath="/m")]),
        ("status.jobsStatus", [named(100, **COUNTERS)], [named(101, **COUNTERS)]),
        ("status.jobsStatus[0].name", ["n" * 253], ["", "n" * 254]),
        *((f"status.jobsStatus[0].{counter}", [0], [-1]) for counter in COUNTERS),
        ("status.trainerStatus.progressPercentage", [0, 100], [-1, 101]),
        ("status.trainerStatus.estimatedRemainingSeconds", [0], [-1]),
        ("status.trainerStatus.metrics", [named(256, value="1")], [named(257, value="1")]),
    ],
)
def test_a_bound_of_a_trainjob_is_where_upstream_has_it(shipped, path, good, bad):
    for value in good:
        assert fields(shipped["TrainJob"], with_value(JOB, path, value)) == set()
    for value in bad:
        assert path in fields(shipped["TrainJob"], with_value(JOB, path, value))


@pytest.mark.parametrize("path", ["spec.trainer.command", "spec.trainer.args"])
def test_a_word_of_a_program_has_a_mebibyte_at_most(shipped, path):
    assert fields(shipped["TrainJob"], with_value(JOB, path, ["x" * 1048576])) == set()
    assert fields(shipped["TrainJob"], with_value(JOB, path, ["x", "x" * 1048577])) == {f"{path}[1]"}


@pytest.mark.parametrize("name", ["name", "value"])
def test_a_metric_has_a_name_and_a_value_of_1_to_64_characters(shipped, name):
    metric = {"name": "n", "value": "v"}

    for text, errors in (("x" * 64, 0), ("", 1), ("x" * 65, 1)):
        job = with_value(JOB, "status.trainerStatus.metrics", [metric | {name: text}])
        assert len(fields(shipped["TrainJob"], job)) == errors


@pytest.mark.parametrize("counter", COUNTERS)
def test_every_counter_of_a_jobs_status_is_required(shipped, counter):
    counters = {name: 0 for name in COUNTERS if name != counter}
    job = with_value(JOB, "status.jobsStatus", [{"name": "n", **counters}])

    assert f"status.jobsStatus[0].{counter}" in fields(shipped["TrainJob"], job)


def test_there_are_at_most_eight_conditions_one_of_each_type(shipped):
    def job(*types: str) -> dict:
        common = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
        return JOB | {"status": {"conditions": [{"type": type_, **common} for type_ in types]}}

    assert fields(shipped["TrainJob"], job(*words(8))) == set()
    assert fields(shipped["TrainJob"], job(*words(9))) == {"status.conditions"}
    assert fields(shipped["TrainJob"], job("a", "a")) == {"status.conditions[1]"}


TWO = [{"name": "x"}, {"name": "x"}]


@pytest.mark.parametrize(
    ("path", "items"),
    [
        ("spec.trainer.env", TWO),
        ("spec.initializer.dataset.env", TWO),
        ("spec.runtimePatches", [{"manager": "a.io/x"}, {"manager": "a.io/x"}]),
        (f"{POD}.volumes", TWO),
        (f"{POD}.containers", TWO),
        (f"{POD}.initContainers", TWO),
        (f"{POD}.imagePullSecrets", TWO),
        (f"{POD}.schedulingGates", TWO),
        (f"{CONTAINER}.env", TWO),
        # By name, though pods have mounts by path: a patch mounts a volume once.
        (f"{CONTAINER}.volumeMounts", [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]),
        ("status.jobsStatus", [{"name": "n", **COUNTERS}, {"name": "n", **COUNTERS}]),
    ],
)
def test_a_list_with_a_key_has_nothing_twice(shipped, path, items):
    assert f"{path}[1]" in fields(shipped["TrainJob"], with_value(JOB, path, items))


RUNTIME = runtime(
    mlPolicy={"torch": {"envInjection": {"targets": [{"jobName": "n", "containerNames": ["c"]}]}}},
    podGroupPolicy={"volcano": {"networkTopology": {}}},
)
MPI = runtime(mlPolicy={"mpi": {}})


@pytest.mark.parametrize(
    ("document", "path", "good", "bad"),
    [
        (RUNTIME, TARGET.removesuffix("[0]"), [[target(w) for w in words(16)]], [[target("n")] * 17]),
        (RUNTIME, f"{TARGET}.jobName", ["n" * 253], ["", "n" * 254]),
        (RUNTIME, f"{TARGET}.containerNames", [words(1), words(8)], [[], words(9), ["a", "node"]]),
        (RUNTIME, f"{TARGET}.containerNames[0]", ["c" * 63], ["c" * 64]),
        (RUNTIME, "spec.podGroupPolicy.volcano.networkTopology.mode", ["hard", "soft"], ["", "loose"]),
        (RUNTIME, "spec.mlPolicy.numNodes", [0, -1, 3], []),
        (MPI, "spec.mlPolicy.mpi.numProcPerNode", [1, 8], [0, -1]),
        (MPI, "spec.mlPolicy.mpi.mpiImplementation", ["OpenMPI", ""], ["Intel", "MPICH"]),
        (MPI, "spec.mlPolicy.mpi.sshAuthMountPath", ["", "/" * 4096], ["/" * 4097]),
        (runtime(mlPolicy={"flux": {}}), "spec.mlPolicy.flux.numProcPerNode", [1], [0]),
        (
            runtime(podGroupPolicy={"coscheduling": {}}),
            "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds",
            [0],
            [],
        ),
        (RUNTIME, "spec.mlPolicy", [{}, {"numNodes": 1}], [{"jax": {}, "xgboost": {}}, {"torch": {}, "flux": {}}]),
        (RUNTIME, "spec.template", [{"spec": {}}], [{}]),
        (RUNTIME, "spec", [{"mlPolicy": {}}], [{}]),
    ],
)
def test_a_bound_of_a_runtime_is_where_upstream_has_it(shipped, document, path, good, bad):
    for kind in ("TrainingRuntime", "ClusterTrainingRuntime"):
        for value in good:
            assert fields(shipped[kind], with_value(document, path, value)) == set()
        for value in bad:
            assert path in fields(shipped[kind], with_value(document, path, value))


PODS = [
    ("serviceAccountName", "a", "b", False),
    ("volumes", named(1), named(2), False),
    ("initContainers", named(1), named(2), False),
    ("containers", named(1), named(2), False),
    ("imagePullSecrets", named(1), named(2), False),
    ("securityContext", {"fsGroup": 1}, {"fsGroup": 2}, False),
    ("terminationGracePeriodSeconds", 1, 2, False),
    ("nodeSelector", {"a": "1"}, {"a": "2"}, True),
    ("affinity", {}, {"nodeAffinity": {}}, True),
    ("tolerations", [{"key": "a"}], [{"key": "b"}], True),
    ("schedulingGates", named(1), named(2), True),
]


@pytest.mark.parametrize(("field", "one", "other", "may_change"), PODS)
def test_what_of_a_pod_patch_may_change_is_what_upstream_lets_change(shipped, field, one, other, may_change):
    before, after = (train_job(runtimePatches=[patch(**{field: value})]) for value in (one, other))
    without = train_job(runtimePatches=[{"manager": "acme.io/x"}])

    assert fields(shipped["TrainJob"], after, before) == (set() if may_change else {f"{POD}.{field}"})
    # The rule needs a value before and after.
    assert fields(shipped["TrainJob"], before, without) == set()
    assert fields(shipped["TrainJob"], without, before) == set()


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("network", {"subdomain": "a"}, {"subdomain": "b"}),
        ("successPolicy", {"operator": "All"}, {"operator": "Any"}),
        ("failurePolicy", {"maxRestarts": 1}, {"maxRestarts": 2}),
        ("startupPolicy", {"startupPolicyOrder": "AnyOrder"}, {"startupPolicyOrder": "InOrder"}),
        ("volumeClaimPolicies", [], [{"templates": []}]),
    ],
)
def test_policies_of_a_runtimes_template_stay_as_they_are(shipped, field, one, other):
    base = {"replicatedJobs": []}
    before, after = (runtime(base | {field: value}) for value in (one, other))

    assert fields(shipped["TrainingRuntime"], after, before) == {f"spec.template.spec.{field}"}
    assert fields(shipped["TrainingRuntime"], runtime(base), before) == set()
