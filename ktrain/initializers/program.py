"""What both programs share: the environment in, lines of a log and an exit code out."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from .errors import ConfigurationError, InitializerError
from .settings import Settings
from .variables import unused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .source import Source

log = structlog.get_logger("ktrain.initializers")


@dataclass(frozen=True, slots=True)
class Step:
    """One of the two programs."""

    kind: str
    """`dataset` or `model`."""
    hub_allow: tuple[str, ...] = ()
    """What is fetched of a repository of the Hub; empty: all."""
    ignore: tuple[str, ...] = ()
    """What is not fetched, unless `IGNORE_PATTERNS` says otherwise."""

    def run(self, environ: Mapping[str, str]) -> None:
        """
        Fetch what *environ* asks for.

        Raises:
            InitializerError: It could not be done.
        """
        from .download import Download  # after the log is set up

        settings = Settings.of(environ, Path("/workspace", self.kind))
        scheme, separator, rest = settings.storage_uri.partition("://")
        source = self._source(scheme if separator else "", rest, settings)
        for name, reason in unused(environ, scheme).items():
            log.warning("variable.unused", variable=name, reason=reason)
        Download(
            source,
            settings.target,
            self.hub_allow if scheme == "hf" else (),
            self.ignore if settings.ignore is None else settings.ignore,
            settings.concurrency,
        ).run()

    def _source(self, scheme: str, rest: str, settings: Settings) -> Source:
        if scheme == "hf":
            from .hub import HubRepository  # a library each: whoever fetches from the one need not load the other

            return HubRepository(rest, self.kind, token=settings.access_token)
        if scheme == "s3":
            from .s3 import Bucket

            return Bucket(rest, settings)
        if scheme == "cache" and self.kind == "dataset":
            raise ConfigurationError(
                f"{settings.storage_uri!r}: ktrain has no data cache; use hf:// or s3://, or Kubeflow's own"
                " dataset-initializer image for this step"
            )
        raise ConfigurationError(f"Unsupported {self.kind} storage URI scheme '{scheme}': expected one of 'hf' or 's3'")


def main(step: Step) -> int:
    """Run *step* with the environment of this process; return the exit code."""
    _set_up_log()
    for number in (signal.SIGINT, signal.SIGTERM):
        # The first process of a container ignores signals that it does not handle. Nothing needs an orderly end.
        signal.signal(number, lambda number, _frame: os._exit(128 + number))
    try:
        step.run(os.environ)
    except InitializerError as error:
        failure = error
    except ImportError as error:
        failure = ConfigurationError(f"{error}: the environment lacks ktrain-operator[initializers]")
    else:
        return 0
    log.error("download.failed", error=str(failure), exit_code=failure.exit_code)
    return failure.exit_code


def _set_up_log() -> None:
    """Lines for people on a terminal, JSON elsewhere."""
    renderer = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
