"""The Flux plugin's hooks."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from ktrain.api.core import CONFIG_MAP_METADATA, SECRETS
from ktrain.api.meta import Key
from ktrain.pipeline.findings import Findings, invalid, some_nodes
from ktrain.pipeline.info import Program
from ktrain.pipeline.points import BUILT, Address, Component, Rule, Watch

from . import curve, scripts
from .job import FluxJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api import trainer as api
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

_INSTALLER: Final = "flux-installer"
_INSTALL: Final = "flux-install"
_SOFTWARE: Final = "spack-install"
_MEMORY: Final = "shared-memory"
_CURVE: Final = "flux-curve"
_SCRIPTS: Final = "/etc/flux-config"
_ENTRYPOINT: Final = "-flux-entrypoint"
_MAX_VOLUME_NAME: Final = 63


class Flux:
    """Has the brokers of one Flux instance start on the nodes, and the user's program run in it."""

    name: Final = "Flux"
    after: Final = ("PlainML",)
    """The number of brokers is that of its nodes; and settings may be among the user's variables."""
    before: Final = ("JobSet",)
    """Pods wait for their volumes, but not for long without saying so: what is mounted is written first."""

    rbac: Final = (Rule(("",), (SECRETS.plural, CONFIG_MAP_METADATA.plural), BUILT, reason="keys and scripts of Flux"),)

    def watches(self) -> Sequence[Watch]:
        """What it builds, by metadata only."""
        return (Watch(SECRETS, owned=True), Watch(CONFIG_MAP_METADATA, owned=True))

    def enforce_ml_policy(self, info: Info, ctx: Context) -> None:
        """Start the entry point instead of the user's program, and bring Flux into the pods."""
        job = FluxJob.of(info)
        if job is None:
            return
        # The runtime's arguments stay: they follow the program.
        info.set_program(Program(("/bin/bash", f"{_SCRIPTS}/entrypoint.sh", " ".join(job.words).strip())))
        scripts_volume = _volume(info.job)
        job.nodes.set_volume({"name": _SOFTWARE, "emptyDir": {}})
        job.nodes.set_volume({"name": _INSTALL, "emptyDir": {}})
        job.nodes.set_volume(
            {"name": scripts_volume, "configMap": {"name": scripts_name(info.job), "defaultMode": 0o755}},
        )
        job.nodes.set_volume({"name": _MEMORY, "emptyDir": {"medium": "Memory"}})
        job.nodes.set_volume({"name": _CURVE, "secret": {"secretName": curve_name(info.job), "defaultMode": 0o400}})
        installer = job.nodes.add_init_container(
            {
                "name": _INSTALLER,
                "image": job.setting("FLUX_VIEW_IMAGE"),
                "command": ["/bin/bash", f"{_SCRIPTS}/init.sh"],
            }
        )
        installer.mount(_INSTALL, scripts.ROOT)
        installer.mount(scripts_volume, _SCRIPTS, read_only=True)
        if container := job.nodes.step_container:
            container.mount(_INSTALL, scripts.ROOT)
            container.mount(_SOFTWARE, "/opt/software")
            container.mount(scripts_volume, _SCRIPTS, read_only=True)
            container.mount(_CURVE, "/curve", read_only=True)
            container.mount(_MEMORY, "/dev/shm", read_only=True)  # noqa: S108 -- a path in the container

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse a runtime that has the installer already, and a job without nodes."""
        flux = FluxJob.of(info)
        if flux is None:
            return Findings()
        nodes = tuple(some_nodes(job, "flux")) if old is None else ()
        if all(container.name != _INSTALLER for container in flux.nodes.init_containers):
            return Findings(nodes)
        detail = f"InitContainer '{_INSTALLER}' is reserved"
        return Findings((invalid("spec.trainer.initContainers", _INSTALLER, detail), *nodes))

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """Return the scripts and the certificate."""
        job = FluxJob.of(info)
        if job is None:
            return ()
        certificate = curve.certificate(info.job.metadata.name, info.job.metadata.uid)
        programs = {"entrypoint.sh": scripts.entrypoint(job), "init.sh": scripts.init(job)}
        curves = {"curve.cert": b64encode(certificate.encode()).decode()}
        return (
            Component.of(info.job, CONFIG_MAP_METADATA, scripts_name(info.job), data=programs),
            Component.of(info.job, SECRETS, curve_name(info.job), data=curves),
        )

    def upkeep(self, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> Sequence[Address]:
        """Return the scripts and the certificate."""
        if runtime.ml_policy is None or not runtime.ml_policy.flux:
            return ()
        namespace = job.metadata.namespace
        return (
            Address(CONFIG_MAP_METADATA, Key(namespace, scripts_name(job))),
            Address(SECRETS, Key(namespace, curve_name(job))),
        )


def scripts_name(job: api.TrainJob) -> str:
    """Name the ConfigMap with the scripts."""
    return f"{job.metadata.name}{_ENTRYPOINT}"


def _volume(job: api.TrainJob) -> str:
    """Name its volume the same, as Kubeflow's does, unless that is too long for one: then no Job could be made."""
    name = scripts_name(job)
    return name if len(name) <= _MAX_VOLUME_NAME else _ENTRYPOINT.removeprefix("-")


def curve_name(job: api.TrainJob) -> str:
    """Name the Secret with the certificate."""
    return f"{job.metadata.name}-flux-curve"
