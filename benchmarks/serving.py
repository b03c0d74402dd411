"""
The embedded API server against a real kube-apiserver: the same requests over TLS, the two taking turns.

The load comes from a program of its own (`load_program`), which costs a fraction of either server. Rates are by the
clock, so what else the machine does hits whichever has its turn: the ratio is of the medians. The embedded server has
one thread; the real one, with its etcd, takes all the cores that there are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import anyio

from .figures import Figure, Goal, Outcome
from .processes import PATIENCE_S, control_plane, environment, in_turns, resident_mb
from .servers import embedded, notes, servers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrain.api.meta import Json

KINDS: Final = ("configmap", "pod", "jobset")
CLIENTS: Final = (1, 32)
SCENARIOS: Final = {"create": 1000, "apply_new": 1000, "apply_changed": 1000, "merge": 1000, "get": 2000, "watch": 500}
"""What is sent, and how often; of `watch` the changes, each of which all clients see."""
OBJECTS: Final = 10_000
LIST_S: Final = 1.0
_AS_FAST: Final = Goal(1.0, at_least=True)


def serving(*, smoke: bool) -> Outcome:
    """Creates, applies, reads, watches and lists of 1 and 32 clients, and the ratio to a real kube-apiserver."""
    runs = 1 if smoke else 3
    figures: list[Figure] = []
    with ExitStack() as stack:
        files = {name: stack.enter_context(start()) for name, start in servers(smoke=smoke).items()}
        for kind in KINDS[:1] if smoke else KINDS:
            for clients in CLIENTS[:1] if smoke else CLIENTS:
                for scenario, count in SCENARIOS.items():
                    wanted = (scenario, kind, clients, 5 if smoke else count)
                    figures += _compared(f"{scenario} {kind}, {clients}", files, wanted, runs)
        for file in files.values():
            load(file, "fill", "configmap", 32, 100 if smoke else OBJECTS)
        for clients in CLIENTS:
            wanted = ("list", "configmap", clients, clients if smoke else max(8, clients))
            figures += _compared(f"list of {OBJECTS:,}, {clients}", files, wanted, runs)
        alone = [load(files["embedded"], "list", "configmap", 1, 1)["p50_ms"] / 1e3 for _ in range(runs)]
        figures.append(Figure(f"one list of {OBJECTS:,}", "s", alone, Goal(LIST_S)))
    return Outcome(figures, ["the number after the comma: clients", *notes(smoke=smoke)])


def durable(*, smoke: bool) -> Outcome:
    """Creates per second with `--state`, each on disk before it is answered, and in memory."""
    runs, count = (1, 10) if smoke else (5, 2000)
    figures = []
    with embedded() as memory, embedded(durable=True) as disk:
        for clients in CLIENTS:

            def rate(file: str, clients: int = clients) -> Callable[[], float]:
                return lambda: float(load(file, "create", "configmap", clients, count)["rate"])

            in_memory, on_disk = in_turns(runs, rate(memory), rate(disk))
            baseline = Figure(f"in memory, {clients}", "creates/s", in_memory)
            figures += [baseline, Figure(f"with --state, {clients}", "creates/s", on_disk, None, baseline)]
    return Outcome(figures, ["the number after the comma: clients"])


def empty(*, smoke: bool) -> Outcome:
    """Resident memory of a control plane without pods that has just started."""

    async def weigh() -> float:
        async with control_plane() as (pid, _):
            await anyio.sleep(1.0)
            return resident_mb(pid)

    weights = [anyio.run(weigh) for _ in range(1 if smoke else 3)]
    return Outcome([Figure("ktrain up --pods off", "MB", weights, Goal(50.0))])


def _compared(name: str, files: dict[str, str], wanted: tuple[str, str, int, int], runs: int) -> Sequence[Figure]:
    def rate(file: str) -> Callable[[], float]:
        return lambda: float(load(file, *wanted)["rate"])

    found = in_turns(runs, *map(rate, files.values()))
    rates = dict(zip(files, found, strict=True))
    print(name, {server: [round(one) for one in several] for server, several in rates.items()}, file=sys.stderr)
    if "real" not in rates:
        return [Figure(name, "/s", rates["embedded"])]
    real = Figure("real", "/s", rates["real"])
    ratios = [ours / theirs for ours, theirs in zip(rates["embedded"], rates["real"], strict=True)]
    return [Figure(name, "/s", rates["embedded"], None, real), Figure("  to the real one", "x", ratios, _AS_FAST)]


def load(file: str, scenario: str, kind: str, clients: int, count: int) -> Json:
    """
    Put load on a server; returns what the program found.

    Raises:
        RuntimeError: A request failed.
    """
    arguments = (file, scenario, kind, str(clients), str(count))
    command = (sys.executable, "-m", "benchmarks.load_program", *arguments)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
    found: Json = json.loads(done.stdout)
    return found
