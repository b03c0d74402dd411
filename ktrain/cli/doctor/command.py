"""`ktrain doctor`: the command line, and how findings are printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from ktrain.cli.checks import not_empty
from ktrain.cli.display import printable
from ktrain.cli.options import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .finding import Finding

LOG_LEVEL: Final = "error"
"""Warnings in the log of plugins are for operators."""


@click.command("doctor")
@click.option("-n", "--namespace", default="", help="Where the operator is. Default: it is looked for everywhere.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="The operator's configuration. Default: read from the ConfigMap of its Deployment.",
)
@click.option("--installed", is_flag=True, help="An operator has to be there: its absence is an error.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How to print."
)
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="The cluster of this kubeconfig.")
@click.option("--context", callback=not_empty, help="The cluster of this kubeconfig context.")
def command(*, namespace: str, config: str | None, installed: bool, output: str, **cluster: str | None) -> None:
    """
    Check whether a cluster is fit for ktrain, before the installation and after it.

    Looks at the Kubernetes release, CRDs and their stored versions, the controller of JobSets, the operator and its
    lease, webhooks and their certificates, rights, gang schedulers, and what other operators left behind. Nothing is
    changed: the webhooks are tried by a dry run. With --config in a pod of the operator it checks the account of that
    pod.

    Exit code: 0, 1 if something is an error, 2 if the cluster cannot be asked.

    \b
    Examples:
      ktrain doctor
      ktrain doctor --context my-cluster -n ktrain-system --installed -o json
    """
    findings = _examine(namespace, config, installed=installed, **cluster)
    click.echo((_json if output == "json" else _table)(findings))
    sys.exit(Outcome.FAILED.value if any(one.status.value == "error" for one in findings) else 0)


def _examine(
    namespace: str, config: str | None, *, installed: bool, kubeconfig: str | None, context: str | None
) -> list[Finding]:
    import anyio

    from ktrain.cli.config import ConfigError
    from ktrain.cli.config_file import load
    from ktrain.cli.session import cluster_session
    from ktrain.framework.env import system_env
    from ktrain.framework.errors import FrameworkError
    from ktrain.framework.telemetry.logging import configure

    from .examination import examine

    async def ask() -> list[Finding]:
        async with cluster_session(system_env(), kubeconfig=kubeconfig, context=context) as session:
            return await examine(session.client, namespace, installed=installed, configuration=configuration)

    configure(level=LOG_LEVEL)
    try:
        configuration = load(config) if config else None
        return anyio.run(ask)
    except (ConfigError, FrameworkError, OSError) as error:
        click.echo(f"ktrain: {error}", err=True)
        sys.exit(Outcome.REFUSED.value)


def _json(findings: Sequence[Finding]) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode({"findings": findings})).decode()


def _table(findings: Sequence[Finding]) -> str:
    """Print a line for each finding, what to do below it, and a summary."""
    lines: list[str] = []
    width = max(len(one.check) for one in findings)
    for one in findings:
        lines.append(printable(f"{one.status.value:<8} {one.check:<{width}}  {one.subject}: {one.message}"))
        if one.fix:
            lines.append(f"{'':8} {'':{width}}  -> {one.fix}")
    counts = {status: sum(one.status.value == status for one in findings) for status in ("error", "warning", "skipped")}
    lines.append(
        ", ".join(
            f"{count} {status}{'s' if count != 1 and status != 'skipped' else ''}" for status, count in counts.items()
        )
    )
    return "\n".join(lines)
