"""The MPI plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAP_METADATA, SECRETS
from ktrain.api.meta import Key
from ktrain.pipeline.findings import Findings, invalid, some_nodes
from ktrain.pipeline.info import literal
from ktrain.pipeline.journal import TRAIN_JOB, Author
from ktrain.pipeline.points import BUILT, Address, ApplyWhen, Component, Rule, Watch
from ktrain.pipeline.prepare import declared_environment, environment

from . import objects
from .policy import MPIJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.pipeline.findings import FieldError
    from ktrain.pipeline.info import Info, PodSet
    from ktrain.pipeline.points import Context

_KEYS: Final = "mpi-ssh-auth"
_HOSTS: Final = "mpi-hostfile"
_HOSTS_DIRECTORY: Final = "/etc/mpi"


class MPI:
    """Gives launcher and nodes what `mpirun` needs to start ranks by ssh."""

    name: Final = "MPI"
    before: Final = ("JobSet",)
    """Pods wait for their volumes, but not for long without saying so: what is mounted is written first."""
    rbac: Final = (
        Rule(("",), (SECRETS.plural, CONFIG_MAP_METADATA.plural), BUILT, reason="keys and host files of MPI"),
    )

    def watches(self) -> Sequence[Watch]:
        """What it builds, by metadata only: keys and host files are never kept in memory."""
        return (Watch(SECRETS, owned=True), Watch(CONFIG_MAP_METADATA, owned=True))

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """
        Set the sizes of node and launcher, their volumes, and the launcher's variables.

        Raises:
            PlanError: The runtime names an MPI that nobody here knows.
        """
        job = MPIJob.of(info)
        if job is None:
            return
        if node := job.node:
            node.set_count(job.node_count(node))
            if job.policy.run_launcher_as_node:
                _as_the_launcher(info, node)
        if job.launcher and job.launcher.ancestor == api.ANCESTOR_TRAINER:
            job.launcher.set_count(1)
        for pod_set in (job.node, job.launcher):
            if pod_set:
                _give_keys(job, pod_set)
        if job.launcher:
            _give_hosts(job, job.launcher)

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse several nodes where the runtime has one, none at all, and variables that are the launcher's."""
        mpi, trainer = MPIJob.of(info), job.spec.trainer
        if mpi is None or trainer is None:
            return Findings()
        errors: list[FieldError] = []
        if (trainer.num_nodes or 1) >= 2 and mpi.policy.run_launcher_as_node and not (mpi.launcher and mpi.node):
            detail = (
                "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either"
                " launcher and node"
            )
            errors.append(invalid("spec.trainer.numNodes", trainer.num_nodes, detail))
        if old is None:
            errors += some_nodes(job, "mpi")
        if trainer.processes_per_node:
            detail = "must be a number: the slots of a node in MPI's host file"
            errors.append(invalid("spec.trainer.numProcPerNode", trainer.processes_per_node, detail))
        env = declared_environment(trainer.env)
        if reserved := sorted(entry["name"] for entry in env if entry.get("name") in mpi.reserved):
            detail = f"must not have reserved envs, invalid envs configured: [{' '.join(reserved)}]"
            errors.append(invalid("spec.trainer.env", env, detail))
        return Findings(tuple(errors))

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """
        Return the host file, and the key pair if there is none yet: it is drawn once for a job.

        Raises:
            PlanError: The host file is too long for its ConfigMap.
        """
        job = MPIJob.of(info)
        if job is None:
            return ()
        hosts = Component(CONFIG_MAP_METADATA, objects.hostfile(job))
        key = Key(info.job.metadata.namespace, objects.secret_name(info.job))
        existing = ctx.lookup(SECRETS, key)
        if existing and existing.metadata.is_controlled_by(info.job.metadata.uid):
            return (hosts,)
        return (Component(SECRETS, objects.secret(info, ctx.random), ApplyWhen.ABSENT), hosts)

    def upkeep(self, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> Sequence[Address]:
        """Return the key pair and the host file."""
        if runtime.ml_policy is None or not runtime.ml_policy.mpi:
            return ()
        namespace = job.metadata.namespace
        return (
            Address(SECRETS, Key(namespace, objects.secret_name(job))),
            Address(CONFIG_MAP_METADATA, Key(namespace, objects.hostfile_name(job))),
        )


def _as_the_launcher(info: Info, node: PodSet) -> None:
    """A launcher that is a node works like the others: they get what the TrainJob gives it, but for its program."""
    trainer, container = info.job.spec.trainer, node.step_container
    if trainer is None or container is None:
        return
    with info.journal.writing_as(Author(TRAIN_JOB)):
        if node.ancestor != api.ANCESTOR_TRAINER and trainer.resources_per_node:
            container.merge_resources(msgspec.json.decode(trainer.resources_per_node))
        container.set_env(*environment(trainer.env))


def _give_keys(job: MPIJob, pod_set: PodSet) -> None:
    directory = job.policy.key_directory
    mode = job.implementation.key_mode(directory)
    files = (
        ("ssh-privatekey", "id_rsa", mode),
        ("ssh-publickey", "id_rsa.pub", 0o644),
        ("ssh-publickey", "authorized_keys", 0o644),
    )
    items: list[Json] = [{"key": key, "path": path, "mode": mode} for key, path, mode in files]
    secret = {"secretName": objects.secret_name(job.info.job), "defaultMode": 0o400, "items": items}
    pod_set.set_volume({"name": _KEYS, "secret": secret})
    if container := pod_set.step_container:
        container.mount(_KEYS, directory)
    if job.implementation.calls_back:
        pod_set.add_search_domain(f"{job.info.subdomain}.{job.info.job.metadata.namespace}.svc.cluster.local")


def _give_hosts(job: MPIJob, launcher: PodSet) -> None:
    item = {"key": "hostfile", "path": "hostfile", "mode": 0o444}
    config_map = {"name": objects.hostfile_name(job.info.job), "items": [item]}
    launcher.set_volume({"name": _HOSTS, "configMap": config_map})
    if container := launcher.step_container:
        container.mount(_HOSTS, _HOSTS_DIRECTORY)
        variables = job.implementation.variables(job.slots)
        container.set_env(*(literal(name, value) for name, value in variables.items()))
