"""The options that say which nodes the control plane on this machine has: of `ktrain up` and of `ktrain run`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from ktrain.api import quantity, selectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ktrain.local.node_options import NodeLabels, NodeOptions

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_LARGEST: Final = 2**63 - 1
_OF_NODES: Final = re.compile(r"(\d+)(?:-(\d+))?:(.*)")


def _resources(_ctx: click.Context, _param: click.Parameter, value: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, amount in _pairs(value) if value is not None else ():
        _check_resource(name)
        try:
            number = quantity.parse(amount)
        except ValueError as error:
            raise click.BadParameter(f"{name}: {error}") from error
        if number < 0:
            raise click.BadParameter(f"{name}: {amount} is less than nothing")
        if name not in ("cpu", "memory", "ephemeral-storage") and number.denominator != 1:
            raise click.BadParameter(f"{name}: {amount} is not a whole number")
        if number > _LARGEST:
            raise click.BadParameter(f"{name}: {amount} is more than can be counted")
        found[name] = amount
    return found


def _check_resource(name: str) -> None:
    """Refuse names that no pod could ask for."""
    if name in _NATIVE or name.startswith("hugepages-"):
        return
    for problem in selectors.label_key_errors(name):
        raise click.BadParameter(f"{name}: {problem}")
    if "/" not in name:
        raise click.BadParameter(f"{name}: is none of {', '.join(_NATIVE)}; others have a domain, as nvidia.com/gpu")


def _labels(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> tuple[NodeLabels, ...]:
    from ktrain.local.node_options import NodeLabels

    found: list[NodeLabels] = []
    for value in values:
        nodes, text = None, value
        if match := _OF_NODES.fullmatch(value):
            first, last, text = match.groups()
            nodes = range(int(first), int(last or first) + 1)
            if not nodes:
                raise click.BadParameter(f"{first}-{last}: the last node comes before the first")
        labels = dict(_pairs(text))
        for name, label in labels.items():
            for problem in (*selectors.label_key_errors(name), *selectors.label_value_errors(label)):
                raise click.BadParameter(f"{name}={label}: {problem}")
        found.append(NodeLabels(labels, nodes))
    return tuple(found)


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for piece in text.split(","):
        name, equals, value = piece.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{piece!r} is not NAME=VALUE")
        if name in pairs:
            raise click.BadParameter(f"{name} is given twice")
        pairs[name] = value
    return list(pairs.items())


_RESOURCES: Final = click.option(
    "--node-resources",
    callback=_resources,
    metavar="NAME=QUANTITY,...",
    help="What each node has, e.g. cpu=8,memory=32Gi,nvidia.com/gpu=8; what is named is counted strictly. "
    "GPUs beyond those of the machine are simulated: pods get no device. Default: as measured, GPUs shared out.",
)
_LABELS: Final = click.option(
    "--node-labels",
    multiple=True,
    callback=_labels,
    metavar="[N[-M]:]KEY=VALUE,...",
    help="Labels of all nodes, or of node N, or of nodes N to M (from 0); repeatable.",
)


def make_nodes(count: int | None, resources: dict[str, str], labels: tuple[NodeLabels, ...]) -> NodeOptions:
    """
    Put the options together.

    Raises:
        click.UsageError: Labels are for nodes that there are not.
    """
    from ktrain.local.node_options import NodeOptions

    there = range(count or 1)
    for entry in labels:
        missing = next((number for number in entry.nodes or () if number not in there), None)
        if missing is not None:
            known = f"nodes 0 to {there[-1]}" if count and count > 1 else "one node, 0"
            raise click.UsageError(f"--node-labels: there is no node {missing}, only {known}; --nodes says how many")
    return NodeOptions(count, resources, labels)


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--node-resources` and `--node-labels` to a command; `--nodes` means more in `run`, so each has its own."""
    return _RESOURCES(_LABELS(command))
