"""`python -m benchmarks [NAME...]`: measure, and print a table."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from typing import TYPE_CHECKING, Final

from ktrain.framework.telemetry.logging import configure

from .applying import applies
from .burst import burst
from .figures import Outcome, render
from .jobsets import jobsets
from .life import life
from .live_jobs import live_jobs
from .micro import apiserver, watch_decode
from .planning import plans
from .pods import pods
from .reconciling import reconcile_noop
from .serving import durable, empty, serving
from .standing import failover, idle
from .startup import first_line, framework_import, help_text
from .syncing import foreign_objects, sync
from .trainjobs import delivery, trainjobs
from .watching import watch_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Benchmark(Protocol):
        """Measures; `smoke` only proves that it can, with figures that mean nothing. The docstring says what."""

        def __call__(self, *, smoke: bool) -> Outcome: ...


BENCHMARKS: Final[dict[str, Benchmark]] = {
    "help": help_text,
    "first_line": first_line,
    "burst": burst,
    "trainjobs": trainjobs,
    "delivery": delivery,
    "life": life,
    "live_jobs": live_jobs,
    "plans": plans,
    "jobsets": jobsets,
    "watch_decode": watch_decode,
    "watch_store": watch_store,
    "reconcile_noop": reconcile_noop,
    "framework_import": framework_import,
    "applies": applies,
    "sync": sync,
    "foreign_objects": foreign_objects,
    "idle": idle,
    "failover": failover,
    "apiserver": apiserver,
    "serving": serving,
    "durable": durable,
    "empty": empty,
    "pods": pods,
}


def machine() -> str:
    """Say what is measured on; which interpreter, too, as its builds differ by more than its versions do."""
    python = f"Python {platform.python_version()} ({sys.base_prefix})"
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {python}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, or all. Exit code 1: a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--smoke", action="store_true", help="see that they run; the figures mean nothing")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    if options.list:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:<17} {(benchmark.__doc__ or '').strip().splitlines()[0]}")
        return 0
    configure(level="error")
    print(machine())
    missed = 0
    for name in options.names or BENCHMARKS:
        started = time.monotonic()
        outcome = BENCHMARKS[name](smoke=options.smoke)
        print(f"\n== {name} ({time.monotonic() - started:.0f} s)\n{render(outcome.figures)}", flush=True)
        for note in outcome.notes:
            print(f"   {note}", flush=True)
        missed += sum(figure.misses_goal for figure in outcome.figures)
    return 1 if missed and not options.smoke else 0


if __name__ == "__main__":
    sys.exit(main())
