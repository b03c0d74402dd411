"""
Fetches what is selected of a source into a directory: some files at once, none twice.

The state is in `.ktrain` below the target, on the same volume: part files while there are any, and the ledger. Nothing
has to be tidied up when the program is killed, and so it may be killed at any time.
"""

from __future__ import annotations

import shutil
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from .errors import TargetError
from .ledger import Ledger
from .retry import Retry
from .selection import STATE, places, select
from .transfer import Transfer

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from .source import Item, Source

log = structlog.get_logger("ktrain.initializers")


@dataclass(frozen=True, slots=True)
class Download:
    """One download. Use it once."""

    source: Source
    target: Path
    allow: tuple[str, ...] = ()
    """Patterns of keys; empty: all."""
    ignore: tuple[str, ...] = ()
    concurrency: int = 8
    retry: Retry = field(default_factory=Retry)
    progress_s: float = 5.0
    """Seconds between two lines about the progress."""

    def run(self) -> None:
        """
        Fetch what is missing.

        Raises:
            InitializerError: It could not be done; what has come is kept for the next time.
        """
        parts = self.target / STATE / "parts"
        transfer = Transfer(self.source, parts, self.retry)
        listed = self.retry.call("listing", lambda: list(self.source.items()), transfer.stop)
        selected = select(listed, allow=self.allow, ignore=self.ignore)
        try:
            parts.mkdir(parents=True, exist_ok=True)
            wanted = places(selected, self.target)
            ledger = Ledger(self.target)
            missing = {place: item for place, item in wanted.items() if not ledger.has(item, place)}
            resumed = sum(map(transfer.have, missing.values()))
            _check_room(self.target, sum(item.size for item in missing.values()) - resumed)
            log.info(
                "download.started",
                target=str(self.target),
                files=len(missing),
                bytes=sum(item.size for item in missing.values()),
                resumed_bytes=resumed,
                there=len(wanted) - len(missing),
                ignored=len(listed) - len(selected),
            )
            self._fetch(transfer, missing, ledger, resumed)
            if old := ledger.others(wanted):
                log.warning("download.old_files", files=len(old), first=old[0], reason="the source has them no longer")
            shutil.rmtree(parts)
        except OSError as error:
            raise TargetError.of(error, self.target) from error

    def _fetch(self, transfer: Transfer, missing: dict[Path, Item], ledger: Ledger, resumed: int) -> None:
        def fetch(place: Path, item: Item) -> None:
            transfer.fetch(item, place)
            ledger.add(item, place)

        meter = _Meter(transfer, len(missing), sum(item.size for item in missing.values()) - resumed)
        with ThreadPoolExecutor(self.concurrency, "download") as pool:
            pending: set[Future[None]] = {pool.submit(fetch, place, item) for place, item in missing.items()}
            try:
                while pending:
                    done, pending = wait(pending, self.progress_s, FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    if pending:
                        meter.log("download.progress")
            finally:
                transfer.stop.set()
                pool.shutdown(cancel_futures=True)
        meter.log("download.finished", proved=transfer.counter.proved)


class _Meter:
    """Bytes and files so far, and how fast they come."""

    def __init__(self, transfer: Transfer, files: int, size: int) -> None:
        self._counter = transfer.counter
        self._files = files
        self._bytes = size
        self._start = time.monotonic()

    def log(self, event: str, **fields: int) -> None:
        seconds = max(time.monotonic() - self._start, 1e-3)
        log.info(
            event,
            files=self._counter.files,
            of_files=self._files,
            bytes=self._counter.bytes,
            of_bytes=self._bytes,
            seconds=round(seconds, 1),
            bytes_per_s=round(self._counter.bytes / seconds),
            **fields,
        )


def _check_room(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target).free
    if needed > free:
        raise TargetError(
            f"no space left for {target}: {needed} bytes are to come, {free} are free; give the volume more room"
        )
