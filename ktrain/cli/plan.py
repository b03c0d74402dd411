"""`ktrain plan`: what was asked for, and how the plan is printed. The plan itself is made in `offline.py`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from .checks import namespace_option, not_empty
from .files import load_objects
from .options import Outcome

if TYPE_CHECKING:
    from ktrain.api.meta import Json

    from .offline import OfflinePlan

_LOG_LEVEL: Final = "error"
"""Warnings in the log of plugins and of the server are for operators."""
_HIDDEN: Final = "(not shown)"
"""In place of the values of Secrets: each TrainJob draws its own."""


@click.command("plan")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--explain", is_flag=True, help="Print instead who sets which field: the TrainJob, a patch, a plugin.")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="How to print."
)
@namespace_option
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="Take the runtime, and what else plugins read, from the cluster of this kubeconfig.",
)
@click.option("--context", callback=not_empty, help="The same, from the cluster of this kubeconfig context.")
def command(files: tuple[str, ...], *, explain: bool, output: str, namespace: str, **cluster: str | None) -> None:
    """
    Show what would be made of a TrainJob, without a cluster and without running anything.

    FILE is read as by ktrain run: YAML or JSON (- for standard input) with one TrainJob and whatever it needs. The
    shipped runtimes are there already. The objects that the operator would write are printed on stdout, warnings and
    refusals on stderr. Values of Secrets and UIDs are left out.

    Exit code: 0, or 2 if the input or one of the objects is refused.

    \b
    Examples:
      ktrain plan job.yaml
      ktrain plan job.yaml --explain
      ktrain plan job.yaml --context my-cluster | grep -A3 replicatedJobs
    """
    objects = load_objects(files)
    plan = _make(objects, namespace, **cluster)
    show = _authors if explain else _objects
    try:
        for text in plan.warnings:
            click.echo(f"ktrain: warning: {text}", err=True)
        click.echo(show(plan, output), nl=False)
        for text in plan.refusals:
            click.echo(f"ktrain: refused: {text}", err=True)
    except BrokenPipeError:
        from .display import close_quietly

        close_quietly()
        sys.exit(Outcome.OUTPUT_CLOSED.value)
    sys.exit(Outcome.REFUSED.value if plan.refusals else 0)


def _make(objects: list[Json], namespace: str, kubeconfig: str | None, context: str | None) -> OfflinePlan:
    """Make the plan, or say why there is none and end the command."""
    import anyio

    from ktrain.framework.errors import ConfigError, FrameworkError
    from ktrain.framework.parallel import first_cause
    from ktrain.framework.telemetry.logging import configure
    from ktrain.pipeline.errors import PipelineError

    from .offline import make_plan
    from .submit import Refused

    configure(level=_LOG_LEVEL)
    try:
        return anyio.run(make_plan, objects, namespace, kubeconfig, context)
    except Exception as error:
        cause = first_cause(error)
        if isinstance(cause, Refused | ConfigError | PipelineError):
            click.echo(f"ktrain: refused: {cause}", err=True)
            sys.exit(Outcome.REFUSED.value)
        if isinstance(cause, FrameworkError | OSError):
            click.echo(f"ktrain: {cause}", err=True)
            sys.exit(Outcome.FAILED.value)
        raise


def _objects(plan: OfflinePlan, output: str) -> str:
    shown = [_shown(body) for body in plan.objects]
    if output == "json":
        return _json({"apiVersion": "v1", "kind": "List", "items": shown})
    import yaml

    return yaml.safe_dump_all(shown, sort_keys=False, width=120)


def _shown(body: Json) -> Json:
    """Leave out what is drawn anew for each TrainJob: values of Secrets, and UIDs of owners."""
    metadata = dict(body["metadata"])
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [{key: owner[key] for key in owner if key != "uid"} for owner in owners]
    hidden: Json = {
        part: dict.fromkeys(body[part], _HIDDEN)
        for part in ("data", "stringData")
        if body["kind"] == "Secret" and part in body
    }
    return {**body, "metadata": metadata, **hidden}


def _authors(plan: OfflinePlan, output: str) -> str:
    if output == "json":
        return _json(dict(plan.authors))
    rows = [("FIELD OF THE JOBSET'S SPEC", "SET BY"), *plan.authors.items()]
    width = max(len(field) for field, _ in rows)
    lines = [f"{field.ljust(width)}  {author}" for field, author in rows]
    return "\n".join([*lines, f"All other fields come from {plan.runtime}.", ""])


def _json(value: Json) -> str:
    import msgspec

    return f"{msgspec.json.format(msgspec.json.encode(value)).decode()}\n"
