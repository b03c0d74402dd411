"""`ktrain top`: the command line, and the loop that draws."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ktrain.cli.checks import namespace_name, not_empty
from ktrain.cli.display import OutputClosed, close_quietly, write
from ktrain.cli.durations import Duration
from ktrain.cli.options import Outcome

if TYPE_CHECKING:
    from ktrain.framework import Client
    from ktrain.framework.env import Env

    from .views import View, Wish

SORTS: Final = ("state", "name", "age", "restarts")


def _namespace(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    return "" if value is None else namespace_name(ctx, param, value)


@click.command("top")
@click.option("-n", "--namespace", callback=_namespace, help="TrainJobs of this namespace (default: of all).")
@click.option("-A", "--all-namespaces", is_flag=True, help="TrainJobs of all namespaces, which is the default.")
@click.option("--sort", type=click.Choice(SORTS), default="state", show_default=True, help="Order of the TrainJobs.")
@click.option("--interval", type=Duration(), default="2s", show_default=True, help="Draw this often; rates are of it.")
@click.option("--once", is_flag=True, help="Print once, after one interval; also if stdout is not a terminal.")
@click.option(
    "--metrics",
    callback=not_empty,
    metavar="URL",
    help="Where the operator's metrics are (default: its Service, through the API server).",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="json: once."
)
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="The cluster of this kubeconfig.")
@click.option("--context", callback=not_empty, help="The cluster of this kubeconfig context.")
def command(*, namespace: str, all_namespaces: bool, output: str, once: bool, **options: Any) -> None:  # noqa: ANN401 -- click's
    """
    Show TrainJobs, controllers, queues and plugins, live. `q` quits.

    Works on a cluster and on `ktrain up`. Controllers, queues and plugins come from the operator's metrics, which the
    API server fetches from its Service: that takes the right to list Services, and to get services/proxy. Without them
    the TrainJobs are shown alone.

    \b
    Examples:
      ktrain top
      ktrain top -n team-a --sort age --interval 5s
      ktrain top --once -o json
    """
    if namespace and all_namespaces:
        raise click.UsageError("--namespace and --all-namespaces contradict each other")
    from .views import Wish

    as_json = output == "json"
    wish = Wish(
        namespace=namespace,
        sort=options["sort"],
        interval_s=options["interval"],
        metrics=options["metrics"] or "",
        as_json=as_json,
        once=once or as_json or not sys.stdout.isatty(),
    )
    sys.exit(_show(wish, options["kubeconfig"], options["context"]).value)


def _show(wish: Wish, kubeconfig: str | None, context: str | None) -> Outcome:
    import anyio

    from ktrain.cli.session import cluster_session
    from ktrain.framework.env import system_env
    from ktrain.framework.errors import FrameworkError
    from ktrain.framework.parallel import first_cause
    from ktrain.framework.telemetry.logging import configure

    async def show() -> None:
        env = system_env()
        async with cluster_session(env, kubeconfig=kubeconfig, context=context) as session:
            await show_all(session.client, env, wish)

    configure(level="error")
    try:
        anyio.run(show)
    except Exception as error:
        cause = first_cause(error)
        if isinstance(cause, OutputClosed):
            close_quietly()
            return Outcome.OUTPUT_CLOSED
        if not isinstance(cause, FrameworkError | OSError):
            raise
        click.echo(f"ktrain: {cause}", err=True)
        return Outcome.REFUSED
    return Outcome.COMPLETE


async def show_all(client: Client, env: Env, wish: Wish) -> None:
    """
    Show until the user quits, or once.

    Raises:
        FrameworkError: TrainJobs cannot be read.
        OutputClosed: Nobody reads what is written.
    """
    import anyio

    from .screen import Screen, keys, lines
    from .views import following, views

    async with following(client, env, wish.namespace) as jobs:
        found = views(client, env, wish, jobs)
        if wish.once:
            view = await anext(found)
            write(sys.stdout, as_json(view) if wish.as_json else "\n".join([*lines(view), ""]))
            return
        screen = Screen(sys.stdout)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals, screen.taken(), keys() as quit_key:
            async with anyio.create_task_group() as tasks:

                async def stop_on_signal() -> None:
                    async for _ in signals:
                        tasks.cancel_scope.cancel()

                async def stop_on_key() -> None:
                    await quit_key.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(stop_on_signal)
                tasks.start_soon(stop_on_key)
                async for view in found:
                    screen.draw(view)


def as_json(view: View) -> str:
    """Write a view as JSON."""
    import msgspec

    found = {
        "trainJobs": view.jobs,
        "controllers": view.figures.controllers if view.figures else [],
        "plugins": view.figures.plugins if view.figures else [],
        "note": view.note,
    }
    return msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"
