"""
TrainJobStatus: lets the pods of a trainer report how far they are.

Off unless the operator gives it its section, as the feature gate of the same name has it do: where the status server
is, and the CA of its certificate. Pods get both, and a token that is good for reports on this TrainJob only.
Plugins write before the TrainJob's own variables are laid over all, so a user who sets one of these names wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAP_METADATA
from ktrain.api.meta import Key
from ktrain.pipeline.errors import PlanError
from ktrain.pipeline.info import literal
from ktrain.pipeline.points import BUILT, Address, Component, Rule, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

URL: Final = "url"
"""In the section: the server's scheme, host and port, as pods reach it."""
CA: Final = "ca"
"""In the section: the certificates, PEM, by which pods know the server; may change from one pass to the next."""

_VOLUME: Final = "kubeflow-trainer-token"
_DIRECTORY: Final = "/var/run/secrets/kubeflow/trainer"
_TOKEN_LIFETIME_S: Final = 3600


def audience(job: Key) -> str:
    """Return what a token must be for to report on this TrainJob."""
    return f"{api.API_VERSION}/namespaces/{job.namespace}/trainjobs/{job.name}/status"


def path(job: Key) -> str:
    """Return where the status server takes reports on this TrainJob."""
    return f"/apis/{audience(job)}"


class TrainJobStatus:
    """Gives the trainer's containers an address, a CA and a token for reports."""

    name: Final = "TrainJobStatus"
    before: Final = ("JobSet",)
    """Pods wait for their volumes, but not for long without saying so: what is mounted is written first."""

    rbac: Final = (Rule(("",), (CONFIG_MAP_METADATA.plural,), BUILT, reason="the CA that reporting pods trust"),)

    def watches(self) -> Sequence[Watch]:
        """What it builds, by metadata only."""
        return (Watch(CONFIG_MAP_METADATA, owned=True),)

    def enforce_pod_spec(self, info: Info, ctx: Context) -> None:
        """Give all main containers of the trainer what a report takes."""
        section = ctx.config.get(self.name)
        if section is None or info.trainer is None:
            return
        key = info.job.key
        for container in info.trainer.containers:
            container.set_env(
                literal("KUBEFLOW_TRAINER_SERVER_URL", section[URL] + path(key)),
                literal("KUBEFLOW_TRAINER_SERVER_CA_CERT", f"{_DIRECTORY}/ca.crt"),
                literal("KUBEFLOW_TRAINER_SERVER_TOKEN", f"{_DIRECTORY}/token"),
            )
            container.mount(_VOLUME, _DIRECTORY, read_only=True)
        token = {"audience": audience(key), "expirationSeconds": _TOKEN_LIFETIME_S, "path": "token"}
        authority = {"name": _authority_name(info.job), "items": [{"key": "ca.crt", "path": "ca.crt"}]}
        sources = [{"serviceAccountToken": token}, {"configMap": authority}]
        info.trainer.set_volume({"name": _VOLUME, "projected": {"sources": sources}})

    def build(self, info: Info, ctx: Context) -> Sequence[Component]:
        """
        Return the ConfigMap with the CA.

        Raises:
            PlanError: There is no CA, so no pod could report.
        """
        section = ctx.config.get(self.name)
        if section is None:
            return ()
        if not section.get(CA):
            raise PlanError("failed to find status server ca.crt in tls secret")
        data = {"ca.crt": section[CA]}
        return (Component.of(info.job, CONFIG_MAP_METADATA, _authority_name(info.job), data=data),)

    def upkeep(self, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> Sequence[Address]:
        """Return the ConfigMap with the CA."""
        if ctx.config.get(self.name) is None:
            return ()
        return (Address(CONFIG_MAP_METADATA, Key(job.metadata.namespace, _authority_name(job))),)


def _authority_name(job: api.TrainJob) -> str:
    return f"{job.metadata.name}-tls-config"
