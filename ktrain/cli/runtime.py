"""`ktrain runtime`: questions about runtimes. `impact` asks a cluster which of its jobs a change would touch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from .options import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.trainer import RuntimeSpec
    from ktrain.controllers.impact import Impact
    from ktrain.framework import Client
    from ktrain.framework.env import Env

_TOUCHED: Final = 1
_LOG_LEVEL: Final = "error"
_PATHS_SHOWN: Final = 5


class Refused(click.ClickException):
    """The question cannot be answered."""

    exit_code = Outcome.REFUSED.value


@click.group("runtime")
def command() -> None:
    """Ask about training runtimes."""


@command.command("impact")
@click.argument("name")
@click.option("-n", "--namespace", default="", help="It is the TrainingRuntime NAME of this namespace.")
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="The runtime as it would be (YAML or JSON): what would be different for each job.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if a job is touched, or could not run any more.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How to print."
)
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="The cluster of this kubeconfig.")
@click.option("--context", help="The cluster of this kubeconfig context.")
def impact(name: str, **options: object) -> None:
    """
    Tell which TrainJobs a change of the runtime NAME would touch.

    A job runs on the snapshot of its runtime that was taken when it was first looked at. A change touches the jobs that
    have none yet; the others are listed with whether they are behind the runtime as it is now.

    \b
    Examples:
      ktrain runtime impact torch-distributed
      ktrain runtime impact torch-distributed -f new-runtime.yaml --exit-code
    """
    import anyio

    from ktrain.framework.telemetry.logging import configure

    # Which kinds the cluster lacks matters to its operator, and is no part of the answer.
    configure(level=_LOG_LEVEL)
    found = anyio.run(_ask, name, options)
    show = _print_json if options["output"] == "json" else _print_table
    show(found)
    if options["exit_code"] and any(each.is_touched for each in found):
        sys.exit(_TOUCHED)


async def _ask(name: str, options: dict[str, Any]) -> list[Impact]:
    from ktrain.framework import FrameworkError, system_env

    from .session import cluster_session

    env = system_env()
    proposed = _proposed(options["file"], name) if options["file"] else None
    try:
        async with cluster_session(env, kubeconfig=options["kubeconfig"], context=options["context"]) as session:
            return await _impacts(session.client, env, name, options["namespace"], proposed)
    except FrameworkError as error:
        raise Refused(str(error)) from error


async def _impacts(client: Client, env: Env, name: str, namespace: str, proposed: RuntimeSpec | None) -> list[Impact]:
    from ktrain.api import trainer as api
    from ktrain.controllers.impact import impacts, refers_to
    from ktrain.controllers.trainjob import without_unserved
    from ktrain.controllers.trainjob.fetching import fetch_snapshots
    from ktrain.framework import NotFound
    from ktrain.pipeline import Context, Registry

    resource = api.TRAINING_RUNTIMES if namespace else api.CLUSTER_TRAINING_RUNTIMES
    try:
        runtime = await client.get(resource, name, namespace)
    except NotFound:
        known = ", ".join(one.metadata.name for one in (await client.list(resource, namespace=namespace)).items)
        raise Refused(f'there is no {resource.kind} "{name}"; there are: {known or "none"}') from None
    listed = await client.list(api.TRAIN_JOBS, namespace=namespace)
    jobs = sorted((job for job in listed.items if refers_to(job, runtime)), key=lambda job: job.key)
    snapshots = await fetch_snapshots(client, namespace, jobs)
    registry = await without_unserved(Registry.load(), client)
    # What belongs to all is there before the job; what belongs to a job is not, as nothing of it is built.
    shared = {
        (resource, one.key): one
        for resource in {watch.resource for watch in registry.watches if not watch.resource.namespaced}
        for one in (await client.list(resource)).items
    }
    kinds = {watch.resource for watch in registry.watches}
    context = Context.at_present(env, lambda resource, key: shared.get((resource, key)), kinds=kinds)
    return impacts(registry, runtime, proposed, jobs, snapshots, context)


def _proposed(path: str, name: str) -> RuntimeSpec:
    import msgspec

    from ktrain.api import documents
    from ktrain.api import trainer as api

    try:
        objects = [document.object for document in documents.load([path], stdin=sys.stdin.buffer)]
    except documents.DocumentError as error:
        raise Refused(str(error)) from error
    kinds = (api.TRAINING_RUNTIMES.kind, api.CLUSTER_TRAINING_RUNTIMES.kind)
    named = [one for one in objects if one.get("kind") in kinds and one["metadata"].get("name") == name]
    if len(named) != 1:
        raise Refused(f'{path}: {len(named)} runtimes are called "{name}", where one is expected')
    # By way of JSON, because what only passes through stays JSON.
    return msgspec.json.decode(msgspec.json.encode(named[0].get("spec") or {}), type=api.RuntimeSpec)


def _print_json(found: Sequence[Impact]) -> None:
    import msgspec

    rows = [{**msgspec.to_builtins(each), "job": str(each.job), "touched": each.is_touched} for each in found]
    click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())


def _print_table(found: Sequence[Impact]) -> None:
    rows = [("NAMESPACE", "NAME", "RUNTIME", "TOUCHED", "WHAT CHANGES")]
    rows += [
        (each.job.namespace, each.job.name, each.standing, "yes" if each.is_touched else "no", _what(each))
        for each in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[4]]).rstrip())
    touched = sum(each.is_touched for each in found)
    click.echo(f"{touched} of {len(found)} jobs touched")


def _what(each: Impact) -> str:
    if each.refusal:
        return f"cannot run on it: {each.refusal}"
    if each.behind:
        return "nothing; its snapshot is behind the runtime"
    more = len(each.changes) - _PATHS_SHOWN
    return ", ".join(each.changes[:_PATHS_SHOWN]) + (f" and {more} more" if more > 0 else "")
