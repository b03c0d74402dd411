"""`ktrain run`: what was asked for, checked before anything starts. The run itself is in `running.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .checks import namespace_option, not_empty
from .durations import Duration
from .feature_gates import FeatureGates, feature_gates_option
from .files import load_objects
from .node_options import make_nodes, node_options
from .options import Options
from .script import TORCH_RUNTIME, Script, train_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.local.node_options import NodeOptions


class RunCommand(click.Command):
    """Splits the command line at `--`: what follows belongs to the script, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the script's arguments in `ctx.meta`."""
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta["script_arguments"] = args[:cut], args[cut + 1 :]
        has_script = any(arg.endswith(".py") for arg in args)  # before they are taken out of the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not has_script:
                raise
            name = error.option_name
            hint = f"no such option: {name}; if it is the script's, it comes after --: ktrain run SCRIPT.py -- {name}"
            raise click.UsageError(hint, ctx) from error


def _env_pair(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for value in values:
        name, equals, text = value.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        if any(name == known for known, _ in pairs):
            raise click.BadParameter(f"{name} is given twice")
        pairs.append((name, text))
    return pairs


@click.command("run", cls=RunCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE... | SCRIPT.py")
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Script: number of its nodes (default 1). YAML: run on N nodes that share this machine.",
)
@node_options
@click.option("--nproc-per-node", type=click.IntRange(min=1), help="Script: processes on each node.")
@click.option("--runtime", callback=not_empty, help=f"Script: the ClusterTrainingRuntime (default {TORCH_RUNTIME}).")
@click.option(
    "--env", multiple=True, callback=_env_pair, metavar="K=V", help="Script: environment variable; repeatable."
)
@click.option("--print", "show", is_flag=True, help="Script: print the TrainJob it stands for, and stop.")
@namespace_option
@click.option(
    "--pods",
    type=click.Choice(["auto", "ns", "host"]),
    default="auto",
    show_default=True,
    help="Pods in network namespaces, or on the shared host network; auto: namespaces if the machine allows them.",
)
@feature_gates_option
@click.option("--timeout", type=Duration(), help="Stop the job after this long (90s, 10m, 1h30m); exit code 124.")
@click.option("--keep", is_flag=True, help="At the end leave the control plane and its objects up until Ctrl-C.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml"]),
    help="Print the final TrainJob on stdout, all else on stderr.",
)
@click.option(
    "--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Run on the cluster of this kubeconfig."
)
@click.option("--context", callback=not_empty, help="Run on the cluster of this kubeconfig context.")
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401 -- click passes what the decorators above say
    """
    Run a TrainJob to its end and show what happens.

    FILE is YAML or JSON (- for standard input) with one TrainJob and whatever it needs: runtimes, ConfigMaps, Secrets,
    claims. The shipped runtimes (plain, torch-distributed, ...) are there already. SCRIPT.py runs without any YAML.

    Exit code: 0 Complete, 1 Failed, 2 input refused, 124 timeout, 130 Ctrl-C.

    \b
    Examples:
      ktrain run examples/digits/trainjob.yaml
      ktrain run train.py --nodes 2 --nproc-per-node 2 -- --epochs 3
      ktrain run job.yaml --context my-cluster
    """
    arguments = ctx.meta.get("script_arguments")
    is_script = len(files) == 1 and files[0].endswith(".py")
    script_only = {name: options.pop(name) for name in ("nodes", "nproc_per_node", "runtime", "env", "show")}
    _check_usage(files, script_only, arguments, is_script=is_script)
    settings = Options(
        namespace=options["namespace"],
        pods=options["pods"],
        timeout_s=options["timeout"],
        keep=options["keep"],
        output=options["output"],
        kubeconfig=options["kubeconfig"],
        context=options["context"],
        nodes=_nodes(options, script_only["nodes"], is_script=is_script),
        gates=options["feature_gates"],
    )
    if settings.nodes.is_described and settings.on_cluster:
        raise click.UsageError("--nodes, --node-resources and --node-labels are for runs on this machine")
    if settings.on_cluster and settings.pods != "auto":
        raise click.UsageError("--pods is for runs on this machine")
    if settings.gates != FeatureGates() and settings.on_cluster:
        raise click.UsageError("--feature-gates is for runs on this machine; on a cluster its operators have them")
    if settings.keep and settings.on_cluster:
        raise click.UsageError("--keep is for runs on this machine; on a cluster objects stay anyway")
    if is_script:
        job = _script_job(files[0], script_only, arguments or ())
        if script_only["show"]:
            _print_yaml(job)
            return
        objects = [job]
    else:
        objects = load_objects(files)
    from .running import run

    sys.exit(run(objects, settings))


def _nodes(options: Json, count: int | None, *, is_script: bool) -> NodeOptions:
    """A script's nodes share the whole machine, unless somebody says what a node is."""
    resources, labels = options["node_resources"], options["node_labels"]
    return make_nodes(count if resources or labels or not is_script else None, resources, labels)


def _check_usage(
    files: tuple[str, ...], script_only: Json, arguments: Sequence[str] | None, *, is_script: bool
) -> None:
    if is_script:
        if not Path(files[0]).is_file():
            raise click.UsageError(f"no such file: {files[0]}{_similar(Path(files[0]))}")
        return
    scripts = [name for name in files if name.endswith(".py")]
    if scripts:
        raise click.UsageError(f"{scripts[0]}: a script is run alone; its arguments come after --")
    if script_only["show"]:
        raise click.UsageError(f"--print shows the TrainJob that stands for a script; {files[0]} is one already")
    given = [f"--{name.replace('_', '-')}" for name, value in script_only.items() if value and name != "nodes"]
    if arguments:
        given.append("-- ARGS")
    if given:
        raise click.UsageError(f"{', '.join(given)}: only for a script; for YAML, write it into the TrainJob")


def _similar(path: Path) -> str:
    import difflib

    close = difflib.get_close_matches(path.stem, [other.stem for other in path.parent.glob("*.py")], n=1)
    return f"; did you mean {path.with_stem(close[0])}?" if close else ""


def _script_job(path: str, given: Json, arguments: Sequence[str]) -> Json:
    return train_job(
        Script(
            path=path,
            arguments=arguments,
            runtime=given["runtime"] or TORCH_RUNTIME,
            nodes=given["nodes"] or 1,
            processes_per_node=given["nproc_per_node"],
            env=given["env"],
        )
    )


def _print_yaml(value: Json) -> None:
    import yaml

    click.echo(yaml.safe_dump(value, sort_keys=False), nl=False)
