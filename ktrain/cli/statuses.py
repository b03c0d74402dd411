"""
Reports of progress in `ktrain operator`: the status server, and what the plugin of the same feature has to know of it.

The server's certificate is the webhooks' (`webhook.certDir`), as in Kubeflow's Trainer, and so is its CA, `ca.crt`.
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

    from .config import Configuration

GATE: Final = "TrainJobStatus"
DEFAULT_NAMESPACE: Final = "kubeflow-system"


def add_status_server(operator: Operator, configuration: Configuration) -> dict[str, Json]:
    """
    Add the status server to an operator, if its feature gate is on.

    Returns the plugins' configuration: a section for the plugin, whose CA is replaced when the file changes; nothing if
    the gate is off.
    """
    if not configuration.feature_gates.get(GATE):
        return {}
    # With all of schema validation: only those who take reports need it.
    from ktrain.controllers.statusserver import AuthorityFile, StatusServer, Tokens, Writer

    settings = configuration.status_server
    directory = Path(configuration.webhook.cert_dir)
    plugin = trainjobstatus.TrainJobStatus.name
    plugins: dict[str, Json] = {plugin: {trainjobstatus.URL: server_url(configuration), trainjobstatus.CA: ""}}

    def use(ca: str) -> None:
        plugins[plugin] = {**plugins[plugin], trainjobstatus.CA: ca}

    client, jobs = operator.main.unguarded, operator.cache.informer(TRAIN_JOBS)
    server = StatusServer(
        jobs,
        Tokens(client, operator.env),
        Writer(client, operator.env, jobs, qps=settings.qps, burst=settings.burst, metrics=operator.metrics),
        CertificateDirectory(directory, operator.env, metrics=operator.metrics),
        operator.env,
        host=configuration.webhook.host,
        port=settings.port,
    )
    operator.add(AuthorityFile(directory, operator.env, use))
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
    service = configuration.cert_management.webhook_service_name
    return f"https://{service}.{namespace}.svc:{configuration.status_server.port}"
