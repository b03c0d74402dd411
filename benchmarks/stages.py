"""
Where the time of a run goes: `python -m benchmarks.stages ns|host JOB.yaml START` prints JSON.

Milliseconds of each stage: from START (on the monotonic clock, when the process was started) to the imports' end, then
to the running control plane, to the TrainJob on the server, to the first pod that has started, to the first line of any
rank.
"""

from __future__ import annotations

import gc
import json
import sys
import time

from ktrain.cli.main import GC_THRESHOLDS


class Stopwatch:
    """Remembers when each stage was reached for the first time."""

    def __init__(self, start_s: float) -> None:
        self._last_s = start_s
        self.took_ms: dict[str, float] = {}

    def reached(self, stage: str) -> None:
        if stage not in self.took_ms:
            now_s = time.monotonic()
            self.took_ms[stage] = (now_s - self._last_s) * 1e3
            self._last_s = now_s


def main() -> None:
    """Run once and print."""
    mode, file, start = sys.argv[1:]
    watch = Stopwatch(float(start))
    gc.set_threshold(*GC_THRESHOLDS)
    # Like the command, which imports the run when it has read its options.
    from .staged_run import execute

    execute("ns" if mode == "ns" else "host", file, watch.reached)
    print(json.dumps(watch.took_ms))


if __name__ == "__main__":
    main()
