"""`ktrain up`: the embedded control plane as a server."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

if TYPE_CHECKING:
    from ktrain.local.plane import PodMode

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
    "--kubeconfig", type=click.Path(dir_okay=False), help="Write a kubeconfig here (default: a temporary file)."
)
@click.option(
    "--pods",
    type=click.Choice(["auto", "ns", "host", "off"]),
    default="auto",
    show_default=True,
    help="How pods run; off: no kubelet and no scheduler, pods stay as they are until somebody else drives them.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False),
    metavar="DIRECTORY",
    help="Keep objects, keys and claims here for the next start (default: objects live in memory).",
)
def command(listen: tuple[str, int], kubeconfig: str | None, pods: PodMode, state: str | None) -> None:
    """
    Serve a small Kubernetes control plane on this machine, until SIGTERM or Ctrl-C.

    Prints `ready` and its URL on one line when it serves. TrainJobs, runtimes, JobSets, Jobs and Pods work as on a
    cluster; pods are local processes. Objects live in memory, or with --state in a directory.

    \b
    Example:
      ktrain up --kubeconfig kc &
      kubectl --kubeconfig kc apply -f job.yaml
    """
    sys.exit(anyio.run(_serve, listen, kubeconfig, pods, state))


async def _serve(listen: tuple[str, int], kubeconfig: str | None, pods: PodMode, state: str | None) -> int:
    from ktrain.framework.env import system_env
    from ktrain.framework.parallel import first_cause
    from ktrain.framework.telemetry.logging import configure
    from ktrain.local.plane import ControlPlane, PlaneError

    configure(level="warning")
    target = Path(kubeconfig) if kubeconfig else None
    kept = Path(state) if state else None
    plane = ControlPlane(system_env(), pods=pods, listen=listen, kubeconfig_file=target, state=kept)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        try:
            async with plane.running() as running:
                for note in running.notes:
                    click.echo(note, err=True)
                click.echo(f"ready {running.url}")
                click.echo(f"kubectl --kubeconfig {running.kubeconfig} get trainjobs", err=True)
                async for _signum in signals:
                    break
        except Exception as error:
            cause = first_cause(error)
            if not isinstance(cause, PlaneError):
                raise
            click.echo(f"ktrain: {cause}", err=True)
            return EXIT_USAGE
    return 0
