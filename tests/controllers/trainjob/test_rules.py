"""Every rule of admission, asked twice: by the webhook, and by the reconciler where no webhook was; one message."""

import copy
import itertools
import random

import msgspec
import pytest
import structlog

from ktrain.api import trainer as api
from ktrain.api.meta import Condition, ObjectMeta
from ktrain.controllers.admission import validate_runtime, validate_train_job
from ktrain.pipeline import Context, Registry
from ktrain.plugins.initializers import DatasetInitializer, ModelInitializer
from ktrain.plugins.jax import JAX
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.mpi import MPI
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.torch import Torch
from ktrain.plugins.xgboost import XGBoost

from .conftest import NOW, RUNTIME, Situation, a_job_set

PLUGINS = (JobSet(), PlainML(), Torch(), JAX(), XGBoost(), MPI(), DatasetInitializer(), ModelInitializer())
KINDS = ["TrainingRuntime", "ClusterTrainingRuntime"]
REF = '{"name":"%s","apiGroup":"trainer.kubeflow.org","kind":"TrainingRuntime"}'
NUMBERS = itertools.count()
LLAMA, QWEN = "torchtune-llama3.2-1b", "torchtune-qwen2.5-1.5b"


def step(name: str = "node", container: str = "node", **pod) -> dict:
    """A replicated job: `mounts` of its container, and more fields of its pod."""
    mounts = [{"name": mount, "mountPath": f"/{mount}"} for mount in pod.pop("mounts", ())]
    spec = {"containers": [{"name": container} | ({"volumeMounts": mounts} if mounts else {})]} | pod
    return {"name": name, "template": {"spec": {"template": {"spec": spec}}}}


def runtime(*more: dict, name: str = "rt", **policy) -> dict:
    document = copy.deepcopy(RUNTIME)
    # Each is a runtime of its own: what is known of a version is remembered.
    document["metadata"] |= {"name": name, "uid": f"uid-{next(NUMBERS)}"}
    document["spec"]["mlPolicy"] = policy
    document["spec"]["template"]["spec"]["replicatedJobs"] += more
    return document


def webhook(document: dict, spec: dict, old: dict | None = None, *, name: str = "job", job_set=None) -> str:
    """What the webhook says to a TrainJob of this spec."""

    def lookup(resource, key):
        if resource.kind == "JobSet":
            return job_set
        return msgspec.json.decode(msgspec.json.encode(document), type=api.Runtime)

    def job(fields: dict) -> dict:
        ref = {"name": document["metadata"]["name"], "kind": "TrainingRuntime"}
        metadata = {"name": name, "namespace": "team", "uid": "uid"}
        return {"metadata": metadata, "spec": {"runtimeRef": ref} | fields}

    context = Context(lookup, NOW, random.Random(1), structlog.get_logger(), lambda: 0.0)
    before = None if old is None else job(old)
    return validate_train_job(Registry(PLUGINS), job(spec), before, context).message


def reconciler(document: dict, spec: dict) -> str:
    """What the reconciler says, as the diagnosis will, to the same TrainJob that no webhook saw."""
    ref = {"name": document["metadata"]["name"], "kind": "TrainingRuntime"}
    typed = msgspec.json.decode(msgspec.json.encode(document), type=api.Runtime)
    decision = Situation(runtime=typed, spec={"runtimeRef": ref} | spec, plugins=PLUGINS).decide()
    assert decision.applies == ()
    assert decision.failure.reason == "BuildFailed"
    return decision.failure.message


DATASET = {"initializer": {"dataset": {"storageUri": "hf://a/b"}}}
MODEL = {"initializer": {"model": {"storageUri": "hf://a/b"}}}


def missing_part(step_name: str, config: str) -> list[tuple]:
    spec = DATASET if step_name == "dataset-initializer" else MODEL
    head = f"spec.runtimeRef: Invalid value: {REF % 'rt'}: must have "
    mount = f"volumeMount with name - initializer in container {step_name} of the {step_name} job"
    return [
        (runtime(), spec, f"{head}{step_name} job when trainJob is configured with input {config}"),
        (runtime(step(step_name)), spec, f"{head}container with name - {step_name} in the {step_name} job"),
        (runtime(step(step_name, step_name)), spec, head + mount),
        (runtime(step(step_name, step_name, mounts=["other"])), spec, head + mount),
    ]


def patch(*replicated_jobs: dict, manager: str = "me.io/x") -> dict:
    template = {"spec": {"replicatedJobs": list(replicated_jobs)}}
    return {"runtimePatches": [{"manager": manager, "trainingRuntimeSpec": {"template": template}}]}


def patches(spec: dict, detail: str) -> str:
    return f"spec.runtimePatches: Invalid value: {msgspec.json.encode(spec['runtimePatches']).decode()}: {detail}"


def bare(kind: str, name: str, **more) -> dict:
    pod = {kind: [{"name": name} | more]}
    return patch({"name": "node", "template": {"spec": {"template": {"spec": pod}}}})


GHOST_JOB, GHOST_INIT, GHOST = patch({"name": "ghost"}), bare("initContainers", "ghost"), bare("containers", "ghost")
OWN_ENV = bare("containers", "node", env=[{"name": "A", "value": "1"}])
MANAGER = "spec.runtimePatches.manager: "
HTTP_PATH = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
NOT_A_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
RULES_OF_PATCHES = [
    (
        runtime(),
        GHOST_JOB,
        patches(GHOST_JOB, "must not have replicated job that doesn't exist in the runtime job template"),
    ),
    (
        runtime(),
        GHOST_INIT,
        patches(GHOST_INIT, "must not have initContainer that doesn't exist in the runtime job node"),
    ),
    (runtime(), GHOST, patches(GHOST, "must not have container that doesn't exist in the runtime job node")),
    (
        runtime(),
        OWN_ENV,
        patches(OWN_ENV, "must not have envs for the dataset-initializer, model-initializer, node containers"),
    ),
    (runtime(), {"runtimePatches": [{"manager": ""}]}, f"{MANAGER}Required value"),
    (
        runtime(),
        {"runtimePatches": [{"manager": "foo"}]},
        f'{MANAGER}Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")',
    ),
    (runtime(), {"runtimePatches": [{"manager": "A_b/c"}]}, f'{MANAGER}Invalid value: "A_b": {NOT_A_SUBDOMAIN}'),
    (runtime(), {"runtimePatches": [{"manager": "a.b/c d"}]}, f'{MANAGER}Invalid value: "c d": {HTTP_PATH}'),
    (
        runtime(),
        {"runtimePatches": [{"manager": f"{'a' * 254}/c"}]},
        f'{MANAGER}Invalid value: "{"a" * 254}": must be no more than 253 characters',
    ),
]


def variables(*names: str) -> dict:
    return {"trainer": {"env": [{"name": name, "value": "1"} for name in names]}}


def reserved(*names: str) -> str:
    value = msgspec.json.encode(variables(*names)["trainer"]["env"]).decode()
    detail = f"must not have reserved envs, invalid envs configured: [{' '.join(sorted(names))}]"
    return f"spec.trainer.env: Invalid value: {value}: {detail}"


PETS = ("PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NPROC_PER_NODE")
OMPIS = (
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
)
DMLCS = ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER")
INJECTED = {"envInjection": {"targets": [{"jobName": "aux", "containerNames": ["warm"]}]}}
NO_SUCH_TARGET = 'envInjection target podSet "aux" container "warm" not found in runtime template'
NEEDS_BOTH = (
    "spec.trainer.numNodes: Invalid value: 2: must have 1 when MPI trainingRuntime with enabled runLauncherAsNode "
    "does not have either launcher and node"
)
RULES_OF_FRAMEWORKS = [
    *((runtime(torch={}), variables(name), reserved(name)) for name in PETS),
    (runtime(torch={}), variables(*PETS), reserved(*PETS)),
    (
        runtime(torch=INJECTED),
        {},
        f'spec.runtimeRef: Invalid value: {{"jobName":"aux","containerNames":["warm"]}}: {NO_SUCH_TARGET}',
    ),
    *((runtime(mpi={}), variables(name), reserved(name)) for name in OMPIS),
    (
        runtime(mpi={"runLauncherAsNode": True}),
        {"trainer": {"numNodes": 2}},
        NEEDS_BOTH,
    ),
    (
        runtime(xgboost={}),
        variables("A", *DMLCS),
        "["
        + ", ".join(
            f"spec.trainer.env[{i}]: Forbidden: {n} is reserved for the XGBoost runtime" for i, n in enumerate(DMLCS, 1)
        )
        + "]",
    ),
]


def tune(*args: str, **trainer) -> dict:
    return {"trainer": {"command": ["tune", "run"], "args": list(args)} | trainer}


QUANTIZED = "model.quantize_base=True"
NUM_NODES, ONE_DEVICE = "spec.trainer.numNodes: Invalid value: 2: ", "for llama3_2/1B model when using QLoRA"
RUNTIME_NAME = 'spec.runtimeRef.name: Invalid value: "%s": '
NO_MODEL = "must have a supported pretrained model, invalid model configured: gpt/5"
NO_LORA = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
NOT_ONE_DEVICE = (
    f"[spec.trainer.numProcPerNode: Invalid value: 2: must be auto or 1 {ONE_DEVICE}, "
    f"spec.trainer.resourcesPerNode: Invalid value: null: must have gpu resource with value 1 {ONE_DEVICE}]"
)
RUNTIMES_OWN = 'must not set immutable config "{0}" in trainer args; it is managed by the runtime'
LORA = "model.lora_attn_modules=[q_proj]"
RULES_OF_TORCHTUNE = [
    (runtime(name=name, torch={}), spec, message)
    for name, spec, message in [
        ("torchtune-gpt-5", tune(), RUNTIME_NAME % "torchtune-gpt-5" + NO_MODEL),
        (LLAMA, tune(numNodes=2), f"{NUM_NODES}must be 1 for llama3_2/1B model"),
        ("torchtune-llama3.3-70b", tune(LORA, numNodes=2), NUM_NODES + NO_LORA),
        (QWEN, tune(QUANTIZED), RUNTIME_NAME % QWEN + "QLoRA is not supported for qwen2_5/1.5B model"),
        (LLAMA, tune(QUANTIZED, numProcPerNode=2), NOT_ONE_DEVICE),
        *(
            (
                LLAMA,
                tune("epochs=2", f"{key}=/x"),
                f'spec.trainer.args[1]: Invalid value: "{key}=/x": {RUNTIMES_OWN.format(key)}',
            )
            for key in ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")
        ),
    ]
]

LONG = step("a-replicated-job-of-fifty-three-letters-abcdefghijklmnop")
NAME_TOO_LONG = (
    'metadata.name: Invalid value: "job": is 7 characters too long: a pod would be called '
    f"job-{LONG['name']}-0-0-abcde, and 63 are allowed"
)


@pytest.mark.parametrize(
    ("document", "spec", "message"),
    [
        *missing_part("dataset-initializer", "datasetConfig"),
        *missing_part("model-initializer", "modelConfig"),
        *RULES_OF_PATCHES,
        *RULES_OF_FRAMEWORKS,
        *RULES_OF_TORCHTUNE,
        (runtime(LONG), {}, NAME_TOO_LONG),
    ],
)
def test_a_rule_has_the_same_words_at_the_webhook_and_at_the_first_pass(document, spec, message):
    assert webhook(document, spec) == message
    assert reconciler(document, spec) == message


def test_a_job_against_which_nothing_is_said_is_built():
    assert webhook(runtime(torch={}), {"trainer": {"numNodes": 2}}) == ""
    assert Situation(plugins=PLUGINS, spec={"trainer": {"numNodes": 2}}).decide().failure is None


# Updates: only the webhook sees what a job was before


CHANGED = {"runtimePatches": [{"manager": "me.io/x"}]}
ONLY_SUSPENDED = (
    "spec.runtimePatches: Forbidden: "
    "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
)
ACTIVE = (
    "spec.runtimePatches: Forbidden: "
    "RuntimePatches cannot be modified when the JobSet's ReplicatedJob node is still active"
)


@pytest.mark.parametrize(
    ("old", "new", "job_set", "message"),
    [
        ({}, CHANGED, None, ONLY_SUSPENDED),
        (CHANGED, {}, None, ONLY_SUSPENDED),
        ({}, CHANGED | {"suspend": True}, a_job_set(), ACTIVE),
        ({"suspend": True}, CHANGED, a_job_set(), ACTIVE),
        ({"suspend": True}, CHANGED, a_job_set(owner="another"), ""),
        ({"suspend": True}, CHANGED, None, ""),
        ({"suspend": True}, CHANGED | {"suspend": True}, None, ""),
        ({}, {"suspend": True}, a_job_set(), ""),
        ({}, {"trainer": {}}, None, "spec.trainer: Invalid value: {}: field is immutable"),
    ],
)
def test_patches_change_only_while_nothing_runs(old, new, job_set, message):
    assert webhook(runtime(), new, old, job_set=job_set) == message


def test_what_changed_past_the_webhook_is_not_applied_to_a_running_jobset(settled):
    decision = settled.but(spec=CHANGED, job_set=a_job_set()).decide()

    assert (decision.applies, decision.failure) == ((), None)


# Runtimes


def labelled(ancestor: str, container: str, **more) -> dict:
    one = step("node", container) | more
    one["template"]["metadata"] = {"labels": {api.ANCESTOR_LABEL: ancestor}}
    return one


PATH = "spec.template.spec.replicatedJobs[0]"
CONTAINERS = f'{PATH}.template.spec.template.spec.containers: Invalid value: [{{"name":"main"}}]: '


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("replicated_job", "message"),
    [
        *(
            (
                labelled(ancestor, "main"),
                CONTAINERS + "must contain the required container for the ancestor: " + ancestor,
            )
            for ancestor in ("trainer", "dataset-initializer", "model-initializer")
        ),
        *(
            (labelled(ancestor, container, replicas=3), f"{PATH}.replicas: Invalid value: 3: always must be 1")
            for ancestor, container in (("trainer", "node"), ("dataset-initializer", "dataset-initializer"))
        ),
    ],
)
def test_a_runtime_is_refused_when_it_is_stored_and_when_a_job_is_to_run_on_it(kind, replicated_job, message):
    document = runtime()
    document["kind"] = kind
    document["spec"]["template"]["spec"]["replicatedJobs"] = [replicated_job]
    typed = msgspec.json.decode(msgspec.json.encode(document), type=api.Runtime)

    decision = Situation(runtime=typed, spec={"runtimeRef": {"name": "rt", "kind": kind}}).decide()

    assert validate_runtime(Registry([]), document, None).message == message
    assert decision.failure.message == f'{kind} "rt" is invalid: {message}'
    assert decision.applies == ()


def test_a_job_that_runs_already_is_not_measured_by_rules_that_came_later():
    document = runtime()
    document["spec"]["template"]["spec"]["replicatedJobs"] = [labelled("trainer", "node", replicas=3)]
    typed = msgspec.json.decode(msgspec.json.encode(document), type=api.Runtime)

    decision = Situation(runtime=typed, suspend=True, job_set=a_job_set(suspend=True)).decide()

    assert decision.failure is None
    assert decision.built != ()


def test_a_kind_of_runtime_that_nobody_knows_is_said_in_the_same_words():
    condition = Condition("Failed", "True", "TrainingRuntimeNotSupported", "unsupported runtime: Fancy.me.io", NOW)
    ref = {"name": "x", "kind": "Fancy", "apiGroup": "me.io"}

    decision = Situation(spec={"runtimeRef": ref}).decide()

    assert webhook(runtime(), {"runtimeRef": ref}) == condition.message
    assert decision.status.conditions == (condition,)
    assert ObjectMeta(name="job").key not in decision.applies
