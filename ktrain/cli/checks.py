"""Checks that options of several commands share."""

from __future__ import annotations

import re

import click


def not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value: a variable of a shell script that is not set must not pass for an option not given."""
    if value == "":
        raise click.BadParameter("it is empty")
    return value


def namespace_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Refuse what cannot be the name of a namespace."""
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", value):
        raise click.BadParameter(f"{value!r} is no namespace: at most 63 of a-z, 0-9 and -")
    return value


namespace_option = click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    callback=namespace_name,
    help="Namespace for objects that name none.",
)
"""`--namespace` of the commands that read files."""
