"""A TrainJob of a runtime at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..objects import job
from . import rare, tables
from .runtimes import STEPS, environment, metadata, resources

if TYPE_CHECKING:
    from ..objects import Json
    from .dice import Dice

MANAGERS = ["acme.io/ops", "kueue.x-k8s.io/manager", "trainer.kubeflow.org/kubeflow-sdk", "a.b-c.d/e/f:g"]
URIS = ["hf://a/b", "s3://b/k", "", "a+b-c.d://x y"]
TRAINER = {
    "image": ["own:2", "r.io/x@sha256:" + "0" * 64, ""],
    "command": [["python", "t.py"], ["x", "y z"], []],
    "args": [["--lr", "1"], [""], []],
    "numNodes": [0, 1, 2, 3, 4],
    "numProcPerNode": [1, 2, 8],
}
TUNING = ["model.lora_attn_modules=[q_proj]", "model.quantize_base=true", "model.use_dora=True", "epochs=2"]
METADATA = {"labels": [{"mine": "1"}], "annotations": [{"scheduling.volcano.sh/queue-name": "mine"}]}


def make(dice: Dice, name: str, runtime: Json) -> Json:
    """Make a job of this name, of this runtime."""
    spec: Json = {"suspend": dice.likely(0.6)}
    if dice.likely(0.9) or _policy(runtime) == "flux":
        spec["trainer"] = trainer(dice, runtime)
    if initializer := _initializer(dice, runtime):
        spec["initializer"] = initializer
    if dice.likely(0.5):
        spec["runtimePatches"] = patches(dice, runtime)
    spec |= dice.fields(
        {"activeDeadlineSeconds": [86400], "managedBy": ["trainer.kubeflow.org/trainjob-controller"]}, 0.1
    )
    if dice.likely(0.03):
        spec["managedBy"] = "kueue.x-k8s.io/multikueue"
    made = job(name, runtime["metadata"]["name"], meta=dice.fields(METADATA, 0.1), **spec)
    made["spec"]["runtimeRef"]["kind"] = runtime["kind"]
    made["spec"]["runtimeRef"] |= dice.fields({"apiGroup": ["trainer.kubeflow.org", "", "other.org"]}, 0.04)
    return made


def trainer(dice: Dice, runtime: Json) -> Json:
    """Make what a job says of its trainer."""
    policy = _policy(runtime)
    made = dice.fields(TRAINER, 0.4)
    if dice.likely(0.5):
        made["env"] = environment(dice, tables.NAMES + (tables.RESERVED if dice.likely(0.1) else []))
    if dice.likely(0.4):
        made["resourcesPerNode"] = _resources(dice, runtime)
    if policy == "torch" and (runtime["metadata"]["name"].startswith("torchtune") or dice.likely(0.05)):
        made |= {"command": ["tune", "run"], "args": dice.some(TUNING, 3)}
        if dice.likely(0.05):
            made["args"].append("output_dir=/mine")
    if policy == "flux":
        made.setdefault("numNodes", 2)
    return made


def patches(dice: Dice, runtime: Json) -> list[Json]:
    """Make patches of several managers."""
    return [_patch(dice, manager, runtime) for manager in dice.some(MANAGERS, 3)]


def _policy(runtime: Json) -> str:
    policy = runtime["spec"].get("mlPolicy") or {}
    return next((name for name in ("torch", "mpi", "jax", "xgboost", "flux") if name in policy), "")


def _resources(dice: Dice, runtime: Json) -> Json:
    """Where the runtime has devices, the job says how many: else Go forgets the runtime's."""
    made = resources(dice)
    theirs = {
        name
        for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]
        for container in one["template"]["spec"]["template"]["spec"]["containers"]
        for amounts in (container.get("resources") or {}).values()
        for name in amounts
        if "/" in name
    }
    if theirs:
        for kind in ("limits", "requests"):
            kept = {name: amount for name, amount in made.get(kind, {}).items() if "/" not in name}
            made[kind] = kept | dict.fromkeys(theirs, dice.one(["1", "2"]))
    return made


def _initializer(dice: Dice, runtime: Json) -> Json:
    found: Json = {}
    names = {one["name"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    for step in STEPS:
        if dice.likely(0.7 if step in names else 0.03):
            part: Json = {"storageUri": dice.one(URIS)} if dice.likely(0.7) else {}
            if dice.likely(0.5):
                part["env"] = environment(dice)
            if dice.likely(0.4):
                part["secretRef"] = {"name": "s"}
            found[step.removesuffix("-initializer")] = part
    return found


def _patch(dice: Dice, manager: str, runtime: Json) -> Json:
    template: Json = {}
    if dice.likely(0.3):
        template["metadata"] = metadata(dice)
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    if dice.likely(0.9):
        template["spec"] = {"replicatedJobs": [_of_job(dice, one) for one in dice.some(jobs, 2)]}
    made: Json = {"manager": manager} | dice.fields({"time": ["2026-01-02T03:04:05Z"]}, 0.05)
    if dice.likely(0.95):
        made["trainingRuntimeSpec"] = {"template": template}
    return made


def _of_job(dice: Dice, theirs: Json) -> Json:
    theirs_pod = theirs["template"]["spec"]["template"]["spec"]
    pod: Json = dice.fields(
        {
            "nodeSelector": [{"pool": "y", "new": ""}, {"zone": "b"}],
            "tolerations": [tables.TOLERATIONS[2:], tables.TOLERATIONS[:2]],
            "affinity": tables.AFFINITIES + rare.AFFINITIES,
            "schedulingGates": [[{"name": "acme.io/b"}], [{"name": "acme.io/new"}, {"name": "acme.io/a"}]],
            "serviceAccountName": ["own"],
            "imagePullSecrets": [[{"name": "three"}, {"name": "two"}]],
            "securityContext": tables.POD_CONTEXTS + rare.POD_CONTEXTS,
            "terminationGracePeriodSeconds": [0, 77],
        },
        0.15,
    )
    if dice.likely(0.2):
        pod["volumes"] = list({one["name"]: one for one in dice.some(tables.VOLUMES + rare.VOLUMES)}.values())
    for kind in ("containers", "initContainers"):
        theirs_names = [one["name"] for one in theirs_pod.get(kind) or ()]
        if theirs_names and dice.likely(0.3):
            pod[kind] = [_of_container(dice, name, kind) for name in dice.some(theirs_names, 2)]
    template: Json = {"spec": pod} if pod else {}
    if dice.likely(0.3):
        template["metadata"] = metadata(dice)
    outer: Json = {"spec": {"template": template}}
    if dice.likely(0.2):
        outer["metadata"] = metadata(dice)
    return {"name": theirs["name"], "template": outer}


def _of_container(dice: Dice, name: str, kind: str) -> Json:
    made: Json = {"name": name}
    main = kind == "containers" and name in ("node", *STEPS)
    if dice.likely(0.03 if main else 0.6):
        made["env"] = environment(dice)
        if dice.likely(0.1):
            made["env"].append({"name": "F", "valueFrom": rare.FILE})
    if dice.likely(0.4):
        mounts: list[Any] = dice.some(tables.MOUNTS + rare.MOUNTS)
        made["volumeMounts"] = list({one["name"]: one for one in mounts}.values())
    if dice.likely(0.3):
        made["securityContext"] = dice.one(tables.CONTEXTS + rare.CONTEXTS)
    return made
