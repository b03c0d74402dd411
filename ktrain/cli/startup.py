"""The start of `ktrain operator`: its first lines in the log, and the wait for the API server."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from ktrain import __version__
from ktrain.framework.backoff import Backoff
from ktrain.pipeline.loading import GROUP

from .config import Configuration, Section, msgspec_name
from .readiness import Server, api_server, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import JsonValue
    from ktrain.framework.operator.operator import Operator

log: FilteringBoundLogger = structlog.get_logger("ktrain.operator")

LOOK_CAP_S: Final = 5.0
"""Longest pause (times up to two) between two questions to an API server that does not answer."""
SAY_AGAIN_S: Final = 60.0
"""After so long the same reason to wait is logged again."""


def announce(configuration: Configuration) -> None:
    """Log the first line: what runs, with which settings and plugins. No setting is a secret."""
    log.info(
        "operator.starting",
        version=__version__,
        python=platform.python_version(),
        settings=dict(changed(configuration)),
        plugins=installed_plugins(),
    )


def changed(configuration: Configuration) -> Iterator[tuple[str, JsonValue]]:
    """Yield the settings that differ from their defaults, by their path in the configuration file."""
    yield from _changed(configuration, Configuration(), "")


def _changed(section: Section, default: Section, path: str) -> Iterator[tuple[str, JsonValue]]:
    for field in msgspec.structs.fields(section):
        value, usual = getattr(section, field.name), getattr(default, field.name)
        where = f"{path}{msgspec_name(field.name)}"
        if isinstance(value, Section):
            yield from _changed(value, usual, f"{where}.")
        elif value != usual:
            # What a plugin is told may be a secret: the names of the plugins only.
            yield where, sorted(value) if where == "plugins.config" else msgspec.to_builtins(value)


def installed_plugins() -> dict[str, list[str]]:
    """Return the names of the installed plugins by the package, with its version, that brings them."""
    from importlib.metadata import entry_points

    found: dict[str, list[str]] = {}
    for entry_point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        package = entry_point.dist
        name = f"{package.name} {package.version}" if package else "no package"
        found.setdefault(name, []).append(entry_point.name)
    return found


async def connected(operator: Operator) -> Server:
    """
    Return the API server once it answers, however long that takes. `/readyz` and the log say what keeps it from it.

    The process does not end itself here: a restart would not bring an API server back, and would hide how long it has
    been away.
    """
    clock, client = operator.env.clock, operator.main.unguarded
    backoff = Backoff(operator.env, cap_s=LOOK_CAP_S)
    said, said_at_s = "", 0.0
    operator.startup.waits_for = "the first answer of the API server"
    while not isinstance(found := await api_server(client), Server):
        reason = operator.startup.waits_for = sentence(found)
        if reason != said or clock.monotonic() - said_at_s >= SAY_AGAIN_S:
            log.warning("operator.waiting", reason=reason)
            said, said_at_s = reason, clock.monotonic()
        await backoff.sleep()
    operator.startup.waits_for = "the answers of the API server about the kinds that plugins watch"
    log.info("operator.connected", server=found.url, server_version=found.version, identity=found.identity)
    return found
