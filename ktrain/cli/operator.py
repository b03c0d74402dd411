"""`ktrain operator`: what was asked for. The operator itself is put together in `operating.py`."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from . import kubeflow
from .config import ConfigError, Configuration
from .config_checks import check
from .config_file import load

EXIT_USAGE = 2


@click.command("operator")
@click.option("--config", type=click.Path(dir_okay=False), help="Configuration file; options win over it.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="Default: the cluster this pod runs in, else $KUBECONFIG.",
)
@click.option("--leader-elect/--no-leader-elect", default=None, help="Work only while holding a Lease (default: off).")
@click.option("--webhooks/--no-webhooks", default=None, help="Serve admission webhooks (default: off).")
@click.option(
    "--metrics-bind-address", metavar="HOST:PORT", help="Serve /metrics here; 0: not at all (default: :8080)."
)
@click.option(
    "--health-probe-bind-address", metavar="HOST:PORT", help="Serve /healthz and /readyz; 0: not (default: :8081)."
)
@click.option("--jobset/--no-jobset", default=None, help="Run the JobSet controller, too (default: off).")
@click.option(
    "--feature-gates",
    metavar="GATE=true|false,...",
    help="TrainJobStatus: pods can report (default: off). GenericWorkload: podGroupPolicy.workload (default: on). "
    "TrainJobState: status.state and kubectl's columns (default: on).",
)
@kubeflow.zap_options
def command(config: str | None, kubeconfig: str | None, **options: object) -> None:
    """
    Run the controllers of TrainJobs and runtimes against a cluster, until SIGTERM.

    The cluster needs the CRDs of config/crd, and the JobSet operator or --jobset.

    \b
    Example:
      ktrain operator --kubeconfig ~/.kube/config --no-leader-elect --metrics-bind-address 127.0.0.1:8080
    """
    logs = kubeflow.logs(options)
    try:
        configuration = _with_options(load(config) if config else Configuration(), options)
        check(configuration, config or "options")
    except ConfigError as error:
        sys.exit(kubeflow.fail(str(error), logs, EXIT_USAGE))
    from .operating import operate

    sys.exit(operate(configuration, kubeconfig, logs))


def _with_options(configuration: Configuration, options: dict[str, Any]) -> Configuration:
    """Lay the options that were given over the file."""
    sections = {
        "leader_elect": ("leader_election", "leader_elect"),
        "webhooks": ("webhook", "enable"),
        "metrics_bind_address": ("metrics", "bind_address"),
        "health_probe_bind_address": ("health", "health_probe_bind_address"),
        "jobset": ("jobset", "enable"),
    }
    for option, (section, name) in sections.items():
        if options[option] is not None:
            changed = msgspec.structs.replace(getattr(configuration, section), **{name: options[option]})
            configuration = msgspec.structs.replace(configuration, **{section: changed})
    if options["feature_gates"]:
        try:
            gates = {**configuration.feature_gates, **kubeflow.gates(options["feature_gates"])}
        except ValueError as error:
            raise ConfigError(f"--feature-gates: {error}") from error
        configuration = msgspec.structs.replace(configuration, feature_gates=gates)
    return configuration
