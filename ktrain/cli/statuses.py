"""
Reports of progress in `ktrain operator`: the status server, and what the plugin of the same feature has to know of it.

The server's certificate is the webhooks', as in Kubeflow's Trainer, and so is its CA: both the operator's own
(`certManagement.enable`), or `tls.crt`, `tls.key` and `ca.crt` of `webhook.certDir`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.election.lease import own_namespace
from ktrain.framework.webhook.certificates import CertificateDirectory
from ktrain.plugins import trainjobstatus

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.framework.operator.operator import Operator
    from ktrain.framework.webhook.certificates import CertificateSource

    from .certificates import Managed
    from .config import Configuration

DEFAULT_NAMESPACE: Final = "kubeflow-system"


def add_status_server(
    operator: Operator, configuration: Configuration, managed: Managed | None = None
) -> dict[str, Json]:
    """
    Add the status server to an operator, if its feature gate is on.

    Returns the sections of the plugins' configuration; if the gate is on, with one of the plugin's, whose CA is
    replaced when it changes.
    """
    plugins: dict[str, Json] = dict(configuration.plugins.config)
    if not configuration.takes_reports:
        return plugins
    # With all of schema validation: only those who take reports need it.
    from ktrain.controllers.statusserver import BURST, QPS, Authority, StatusServer, Tokens, Writer

    settings = configuration.status_server
    directory = Path(configuration.webhook.cert_dir)
    plugin = trainjobstatus.TrainJobStatus.name
    plugins[plugin] = {trainjobstatus.URL: server_url(configuration), trainjobstatus.CA: ""}

    def use(ca: str) -> None:
        plugins[plugin] = {**plugins[plugin], trainjobstatus.CA: ca}

    if managed is None:
        certificates: CertificateSource = CertificateDirectory(directory, operator.env, metrics=operator.metrics)
        authority = Authority(str(directory / "ca.crt"), (directory / "ca.crt").read_text, operator.env, use)
    else:
        certificates = managed.shared.follower()
        authority = Authority("certManagement", managed.authorities, operator.env, use)
    client, jobs = operator.main.unguarded, operator.cache.informer(TRAIN_JOBS)
    server = StatusServer(
        jobs,
        Tokens(client, operator.env),
        Writer(
            client, operator.env, jobs, qps=settings.qps or QPS, burst=settings.burst or BURST, metrics=operator.metrics
        ),
        certificates,
        operator.env,
        host=configuration.webhook.host,
        port=settings.port,
        tls_minimum=configuration.tls.minimum,
    )
    operator.add(authority)
    operator.add(server)
    operator.live_check("status-server-healthz", server.check)
    operator.ready_check("status-server-readyz", server.check)
    return plugins


def server_url(configuration: Configuration) -> str:
    """Return where pods reach the server: the Service in front of the operator."""
    try:
        namespace = own_namespace("the status server")
    except ValueError:
        namespace = DEFAULT_NAMESPACE
    return f"https://{configuration.cert_management.service}.{namespace}.svc:{configuration.status_server.port}"
