"""A runtime at random: its policies, and replicated jobs of all steps in any order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..objects import container, rjob, runtime
from . import rare, tables

if TYPE_CHECKING:
    from ..objects import Json
    from .dice import Dice

POLICIES = ("plain", "none", "torch", "torchtune", "mpi", "jax", "xgboost", "flux")
MODELS = ("llama3.2-1b", "llama3.2-3b", "llama3.3-70b", "qwen2.5-1.5b", "gpt2-1b", "llama3.2")
STEPS = ("dataset-initializer", "model-initializer")
RARELY = 0.02
ELSEWHERE = "kueue.x-k8s.io/multikueue"


def make(dice: Dice, name: str) -> Json:
    """Make a runtime of this name; of TorchTune's the name says which model."""
    policy = dice.one(POLICIES)
    if policy == "torchtune":
        name = f"torchtune-{dice.one(MODELS)}"
    cluster = policy != "torchtune" and dice.likely(0.2)
    jobs = _jobs(dice, policy)
    fields: Json = {"ml": _policy(dice, policy, jobs), "jobset": _jobset(dice, jobs), "cluster": cluster}
    if dice.likely(0.3):
        fields["gang"] = _gang(dice)
    if dice.likely(0.3):
        fields["meta"] = metadata(dice)
    labels = {"trainer.kubeflow.org/support": "deprecated"} if dice.likely(0.1) else {"trainer.kubeflow.org/x": "y"}
    return runtime(f"golden-{name}" if cluster else name, *jobs, labels=labels, **fields)


def metadata(dice: Dice) -> Json:
    """Make what a template says of its metadata."""
    return dice.fields(tables.METADATA, 0.6) | dice.fields(rare.METADATA, 0.1)


def environment(dice: Dice, names: list[str] = tables.NAMES, most: int = 4) -> list[Json]:
    """Make variables, literal and not."""
    return [
        {"name": name, "valueFrom": dice.one(tables.SOURCES)}
        if dice.likely(0.25)
        else {"name": name, "value": dice.one(tables.VALUES)}
        for name in dice.some(names, most)
    ]


def resources(dice: Dice) -> Json:
    """Make limits and requests, of one kind of GPU at most: of two, Go counts either."""
    found: Json = {}
    device = dice.one(tables.GPUS) if dice.likely(0.3) else dice.one(tables.DEVICES) if dice.likely(0.1) else ""
    for kind in ("limits", "requests"):
        amounts = {name: dice.one(tables.QUANTITIES[name]) for name in dice.some(list(tables.QUANTITIES))}
        if device and dice.likely(0.6):
            amounts[device] = dice.one(["1", "2", 4, "8", "0"])
        if amounts or dice.likely(0.1):
            found[kind] = amounts
    return found


def a_container(dice: Dice, name: str) -> Json:
    """Make a container of this name."""
    fields = dice.fields(tables.CONTAINER)
    if dice.likely(0.5):
        fields["env"] = environment(dice, tables.NAMES + (tables.RESERVED if dice.likely(0.2) else []))
    if dice.likely(0.4):
        fields["resources"] = resources(dice)
    if dice.likely(0.2):
        fields["ports"] = dice.some(tables.PORTS[:3])
    if dice.likely(0.3):
        fields["volumeMounts"] = _distinct(dice.some(tables.MOUNTS), "mountPath")
    fields |= dice.fields(rare.CONTAINER, RARELY)
    return container(name, **fields)


def pod(dice: Dice) -> Json:
    """Make the fields of a pod spec beside its containers."""
    fields = dice.fields(tables.POD, 0.08)
    if dice.likely(0.4):
        fields["volumes"] = _distinct(dice.some(tables.VOLUMES + rare.VOLUMES), "name")
    fields |= dice.fields(rare.POD, RARELY)
    if dice.likely(0.25):
        fields["initContainers"] = [
            a_container(dice, name) | ({"restartPolicy": "Always"} if dice.likely(0.3) else {})
            for name in dice.some(["prepare", "proxy", "check"], 2)
        ]
        if dice.likely(0.03):
            fields["initContainers"].append(container("flux-installer"))
    return fields


def is_reported(runtime: Json) -> bool:
    """Say whether no operator acts on the JobSets of this runtime, so that the test says how they are."""
    return bool(runtime["spec"]["template"]["spec"].get("managedBy") == ELSEWHERE)


def _distinct(items: list[Any], key: str) -> list[Any]:
    return list({item[key]: item for item in items}.values())


def _job(dice: Dice, name: str, main: str, step: str = "-", **fields: Any) -> Json:
    containers = [a_container(dice, main), *(a_container(dice, side) for side in dice.some(["side", "logger"], 1))]
    dice.shuffle(containers)
    job = dice.fields(tables.JOB, 0.08) | dice.fields(rare.JOB, RARELY)
    if dice.likely(0.2):
        fields["meta"] = metadata(dice)
    if dice.likely(0.2):
        fields["pod_meta"] = metadata(dice)
    return rjob(name, *containers, step=step, pod=pod(dice), job=job, **fields)


def _jobs(dice: Dice, policy: str) -> list[Json]:
    jobs = []
    for step in STEPS:
        if dice.likely(0.3):
            jobs.append(_job(dice, step if dice.likely(0.9) else "get", step, step if dice.likely(0.9) else "-"))
            if dice.likely(0.9):
                _mount_of_initializer(jobs[-1], step)
    if dice.likely(0.2):
        extra = {"replicas": dice.one([1, 2, 3])} if dice.likely(0.5) else {}
        jobs.append(_job(dice, "extra", dice.one(["node", "x"]), groupName=dice.one(["default", "g"]), **extra))
    if policy == "mpi":
        launcher = _job(
            dice, "launcher", "node" if dice.likely(0.95) else "mpi", "trainer" if dice.likely(0.9) else "-"
        )
        node = _job(dice, "node", "node")
        jobs += dice.some([launcher, node], 2) if dice.likely(0.1) else [launcher, node]
        # Go sizes the launcher by what ktrain sizes the nodes.
        node["template"]["spec"].setdefault("parallelism", 1)
    else:
        jobs.append(_job(dice, "node", "node", "trainer" if dice.likely(0.95) else "-"))
    if dice.likely(0.3):
        dice.shuffle(jobs)
    jobs = list({job["name"]: job for job in jobs}.values()) or [rjob("node")]
    _order(dice, jobs)
    return jobs


def _mount_of_initializer(job: Json, step: str) -> None:
    for one in job["template"]["spec"]["template"]["spec"]["containers"]:
        if one["name"] == step:
            one["volumeMounts"] = [{"name": "initializer", "mountPath": "/workspace"}]


def _order(dice: Dice, jobs: list[Json]) -> None:
    for before, job in pairwise(jobs):
        if dice.likely(0.25):
            job["dependsOn"] = [{"name": before["name"], "status": dice.one(["Ready", "Complete"])}]


def _jobset(dice: Dice, jobs: list[Json]) -> Json:
    fields = dice.fields(tables.JOBSET, 0.08) | dice.fields(rare.JOBSET, RARELY)
    if dice.likely(0.2):
        fields["managedBy"] = ELSEWHERE
    if any("dependsOn" in job for job in jobs):
        fields.pop("startupPolicy", None)
    return fields


def _policy(dice: Dice, policy: str, jobs: list[Json]) -> Json | None:
    nodes = {"numNodes": dice.one([0, 1, 1, 2, 3])} if dice.likely(0.8) else {}
    if policy == "none":
        return None
    if policy == "plain":
        return nodes
    if policy == "mpi":
        table = {
            "numProcPerNode": [1, 1, 2, 4],
            "mpiImplementation": ["OpenMPI", "OpenMPI", ""],
            "sshAuthMountPath": ["/root/.ssh", "/home/u/.ssh"],
            "runLauncherAsNode": [True, False],
        }
        return ({"numNodes": 1} if nodes else {}) | {"mpi": dice.fields(table, 0.5)}
    if policy == "flux":
        return nodes | {"flux": dice.fields({"numProcPerNode": [1, 2]}, 0.5)}
    if policy in ("jax", "xgboost"):
        return nodes | {policy: {}}
    return nodes | {"torch": _injection(dice, jobs) if dice.likely(0.2) else {}}


def _injection(dice: Dice, jobs: list[Json]) -> Json:
    targets = {}
    for job in dice.some(jobs, 2):
        spec = job["template"]["spec"]["template"]["spec"]
        names = [one["name"] for one in [*spec["containers"], *spec.get("initContainers", ())]]
        names = [name for name in names if name != "node"] + ["nobody"] * dice.likely(0.05)
        if names:
            targets[job["name"]] = {"jobName": job["name"], "containerNames": names[:8]}
    return {"envInjection": {"targets": list(targets.values())}} if targets else {}


def _gang(dice: Dice) -> Json:
    return dice.one(
        [
            {"coscheduling": {}},
            {"coscheduling": {"scheduleTimeoutSeconds": 30}},
            {"volcano": {}},
            {"volcano": {"networkTopology": {"mode": "soft", "highestTierAllowed": 2}}},
            {"volcano": {"networkTopology": {}}},
        ]
    )
