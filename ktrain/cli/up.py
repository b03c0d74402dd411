"""`ktrain up`: the embedded control plane as a server."""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from .checks import not_empty
from .feature_gates import feature_gates_option
from .node_options import make_nodes, node_options

if TYPE_CHECKING:
    from ktrain.local.apiserver.access.gate import Authorization
    from ktrain.local.node_options import NodeLabels
    from ktrain.local.plane import ControlPlane, PodMode

    from .feature_gates import FeatureGates

EXIT_USAGE = 2


def _listen_address(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, int]:
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT")
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        raise click.BadParameter(
            f"{host!r} is not a loopback address; the server holds your secrets and runs programs as you"
        )
    return host.strip("[]").replace("localhost", "127.0.0.1"), int(port)


@click.command("up")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    callback=_listen_address,
    metavar="HOST:PORT",
    help="Loopback address to serve on; port 0: a free one.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    callback=not_empty,
    help="Write a kubeconfig here (default: a temporary file).",
)
@click.option(
    "--pods",
    type=click.Choice(["auto", "ns", "host", "off"]),
    default="auto",
    show_default=True,
    help="How pods run; off: no kubelet and no scheduler, pods stay as they are until somebody else drives them.",
)
@click.option(
    "--authorization",
    type=click.Choice(["RBAC", "AlwaysAllow"]),
    default="RBAC",
    show_default=True,
    help="RBAC: users other than the administrator of the kubeconfig need roles; AlwaysAllow: nobody does.",
)
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="N nodes, local-0 to local-(N-1); default: one, local."
)
@node_options
@feature_gates_option
@click.option(
    "--jobsets/--no-jobsets",
    default=True,
    show_default=True,
    help="Run the JobSet controller; without it JobSets are checked and stored, and left to another one.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False),
    callback=not_empty,
    metavar="DIRECTORY",
    help="Keep objects, keys and claims here for the next start (default: objects live in memory).",
)
def command(
    listen: tuple[str, int],
    kubeconfig: str | None,
    pods: PodMode,
    authorization: Authorization,
    nodes: int | None,
    node_resources: dict[str, str],
    node_labels: tuple[NodeLabels, ...],
    feature_gates: FeatureGates,
    state: str | None,
    *,
    jobsets: bool,
) -> None:
    """
    Serve a small Kubernetes control plane on this machine, until SIGTERM or Ctrl-C.

    Prints `ready` and its URL on one line when it serves. TrainJobs, runtimes, JobSets, Jobs and Pods work as on a
    cluster; pods are local processes. Objects live in memory, or with --state in a directory.

    \b
    Example:
      ktrain up --kubeconfig kc &
      kubectl --kubeconfig kc apply -f job.yaml
      ktrain up --nodes 4 --node-resources cpu=8,memory=32Gi,nvidia.com/gpu=8
    """
    from ktrain.framework.env import system_env
    from ktrain.framework.telemetry.logging import configure
    from ktrain.local.plane import ControlPlane

    described = make_nodes(nodes, node_resources, node_labels)
    if pods == "off" and described.is_described:
        raise click.UsageError("--nodes, --node-resources and --node-labels: with --pods off there are no nodes")
    configure(level="warning")
    plane = ControlPlane(
        system_env(),
        pods=pods,
        listen=listen,
        kubeconfig_file=Path(kubeconfig) if kubeconfig else None,
        nodes=described,
        gates=feature_gates.jobsets,
        takes_reports=feature_gates.train_job_status,
        native_gangs=feature_gates.generic_workload,
        shows_state=feature_gates.train_job_state,
        jobsets=jobsets,
        authorization=authorization,
        state=Path(state) if state else None,
        metrics=True,
    )
    sys.exit(anyio.run(_serve, plane))


async def _serve(plane: ControlPlane) -> int:
    from ktrain.framework.parallel import first_cause
    from ktrain.local.apiserver.durability.errors import StateError
    from ktrain.local.plane import PlaneError

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        try:
            async with plane.running() as running:
                for note in running.notes:
                    click.echo(note, err=True)
                _tidy_memory()
                click.echo(f"ready {running.url}")
                click.echo(f"kubectl --kubeconfig {running.kubeconfig} get trainjobs", err=True)
                async for _signum in signals:
                    break
        except Exception as error:
            cause = first_cause(error)
            if not isinstance(cause, (PlaneError, StateError)):
                raise
            click.echo(f"ktrain: {cause}", err=True)
            return EXIT_USAGE
    return 0


def _tidy_memory() -> None:
    """Keep what starting left out of all later garbage collections, and give back what it freed: a tenth of it all."""
    import ctypes

    gc.collect()
    gc.freeze()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc's
        trim(0)
