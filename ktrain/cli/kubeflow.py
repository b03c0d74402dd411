"""
What those who come from Kubeflow Trainer 2.3 have in their Deployment and its file, and ktrain does otherwise.

Nothing of it keeps the operator from starting: flags and fields with a meaning here act, the others are named once in
the log, with what there is instead. A field that says what ktrain does anyway is not worth a line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click
import structlog

from . import feature_gates
from .config import FEATURE_GATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.operator.settings import LogFormat

    from .config import Configuration

log: FilteringBoundLogger = structlog.get_logger("ktrain.operator")

DEBUG_FROM: Final = 4
"""Verbosity in Kubernetes' convention: up to 3 it is of use every day, from 4 for debugging."""
_LEVELS: Final = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}
_ENCODERS: Final[dict[str, LogFormat]] = {"json": "json", "console": "text"}
_TIMES: Final = ("epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano")
_ISO: Final = ("iso8601", "rfc3339", "rfc3339nano")


@dataclass(frozen=True, slots=True)
class Logs:
    """How the operator logs."""

    level: str = "info"
    format: LogFormat = "auto"
    unheeded: dict[str, str] = field(default_factory=dict)
    """Flags that have no effect, and what ktrain does."""


class Level(click.ParamType[str]):
    """`debug`, `info`, `error`, `panic`, or how verbose: 1 and more."""

    name = "level"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a level of ours."""
        if value.isdecimal() and int(value) > 0:
            return "debug" if int(value) >= DEBUG_FROM else "info"
        if value not in _LEVELS:
            self.fail(f"{value!r} is neither a number above 0 nor one of {', '.join(_LEVELS)}", param, ctx)
        return _LEVELS[value]


def zap_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Take the flags of Kubeflow's manager about logs. They are not in the help: they are for those who have them."""
    for option in (
        click.option("--zap-devel", is_flag=False, flag_value="true", type=bool, hidden=True),
        click.option("--zap-encoder", type=click.Choice(tuple(_ENCODERS)), hidden=True),
        click.option("--zap-log-level", type=Level(), hidden=True),
        click.option("--zap-stacktrace-level", type=click.Choice(("info", "error", "panic")), hidden=True),
        click.option("--zap-time-encoding", type=click.Choice(_TIMES), hidden=True),
    ):
        command = option(command)
    return command


def logs(options: dict[str, Any]) -> Logs:
    """Read the flags: `--zap-devel` chooses text and debug, the others win over it."""
    devel = bool(options["zap_devel"])
    encoder = options["zap_encoder"] or ("console" if devel else None)
    unheeded = {}
    if options["zap_stacktrace_level"]:
        unheeded["--zap-stacktrace-level"] = "lines about exceptions have the stack, whatever their level"
    if options["zap_time_encoding"] not in (None, *_ISO):
        unheeded["--zap-time-encoding"] = "times are ISO 8601, in UTC"
    return Logs(
        level=options["zap_log_level"] or ("debug" if devel else "info"),
        format=_ENCODERS[encoder] if encoder else "auto",
        unheeded=unheeded,
    )


def fail(message: str, logs: Logs, code: int) -> int:
    """Write in one line why the operator cannot run, as JSON where the log is JSON; returns the exit code."""
    from ktrain.framework.telemetry.logging import AS_JSON, configure, is_json

    as_json = AS_JSON[logs.format]
    if is_json() if as_json is None else as_json:
        configure(level=logs.level, json=True)
        log.error("operator.failed", error=message, exit_code=code)
    else:
        click.echo(f"ktrain: {message}", err=True)
    return code


def gates(text: str) -> dict[str, bool]:
    """
    Read `--feature-gates` of the operator.

    Raises:
        ValueError: A gate that there is not, one given twice, or a value that is neither true nor false.
    """
    found = feature_gates.switches(text)
    for name in found:
        if name not in FEATURE_GATES:
            raise ValueError(f"no feature gate {name!r}; there is {', '.join(FEATURE_GATES)}")
    return found


def unheeded(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Yield fields of Kubeflow's that ask for what is not done here, with what is."""
    limits = "requests are not limited here: the API server's own fairness limits them"
    if configuration.client_connection.qps is not None:
        yield "clientConnection.qps", limits
    if configuration.client_connection.burst is not None:
        yield "clientConnection.burst", limits
    if configuration.leader_election.resource_lock not in ("", "leases"):
        yield "leaderElection.resourceLock", "the election is by a Lease"
    if configuration.tls.min_version not in (None, "", "1.2", "VersionTLS12", "1.3", "VersionTLS13"):
        yield "tls.minVersion", "servers take TLS 1.2 and 1.3"
    if configuration.tls.cipher_suites:
        yield "tls.cipherSuites", "servers take the suites that OpenSSL holds for safe"
    if configuration.tls.next_protos not in (None, [], ["http/1.1"]):
        yield "tls.nextProtos", "servers speak HTTP/1.1"


def warn(configuration: Configuration, logs: Logs) -> None:
    """Log each field and flag that has no effect, once."""
    for name, instead in (*unheeded(configuration), *logs.unheeded.items()):
        log.warning("operator.field_unheeded", field=name, instead=instead)
