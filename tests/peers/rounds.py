"""
Many random cases at a time on two planes, and the least of each that still differs.

A case is a runtime, a TrainJob of it, and changes. All cases of a round share a namespace: what takes time is waiting.
"""

from __future__ import annotations

import copy
import operator
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from ktrain.api.quantity import canonical

from .chance import changes, jobs, runtimes, spoil
from .chance.dice import Dice
from .differences import differences, held
from .excuses import excuse
from .objects import create
from .runner import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .objects import Json
    from .runner import Plane

HOLD_S = 2.0
AT_A_TIME, SHRINK_S = 20, 240.0
_BESIDE = re.compile(r"(ConfigMap|Secret|PodGroup|VolcanoPodGroup)/(\w+)(-mpi-hostfile|-mpi-ssh-auth|-flux-\w+)?")


@dataclass(frozen=True)
class Case:
    """One runtime, one job of it, and what is done with them."""

    runtime: Json
    job: Json
    changes: list[Json] = field(default_factory=list)

    @classmethod
    def of(cls, seed: int, spoiled: float = 0.15) -> Case:
        """Make the case of a seed; so many have something that is not as it should be."""
        dice = Dice(seed)
        runtime = runtimes.make(dice, f"r{seed}")
        case = cls(runtime, job := jobs.make(dice, f"j{seed}", runtime), changes.make(dice, job, runtime))
        if dice.likely(spoiled):
            return replace(case, runtime=spoil.one(dice, runtime))
        return replace(case, job=spoil.one(dice, job)) if dice.likely(spoiled) else case

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    def renamed(self, name: str) -> Case:
        """Return the same under other names, unless the runtime's counts."""
        theirs = self.runtime["metadata"]["name"]
        runtime = theirs if theirs.startswith("torchtune") else f"{'golden-' * theirs.startswith('golden-')}r{name}"
        names = {self.name: name, theirs: runtime}

        def over(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: names.get(one, one) if key == "name" else over(one) for key, one in value.items()}
            return [over(one) for one in value] if isinstance(value, list) else value

        return Case(*over([self.runtime, self.job, self.changes]))


def play(planes: Sequence[Plane], name: str, cases: Sequence[Case]) -> dict[str, list[str]]:
    """Do all cases on both planes, Go's first; return the lines in which they differ and are not excused, by case."""
    found: dict[str, list[str]] = {}
    ended: set[str] = set()
    by_name = {case.name: case for case in cases}

    def odd(lines: dict[str, list[str]]) -> dict[str, list[str]]:
        wrong: dict[str, list[str]] = {}
        for of, some in lines.items():
            reasons = [excuse(by_name[of], line) for line in some]
            if of in found or of in ended:
                continue
            if any(reason and reason.ends for reason in reasons):
                ended.add(of)
            elif None in reasons:
                wrong[of] = [line for line, reason in zip(some, reasons, strict=True) if reason is None]
        return wrong

    steps = [create(*(case.runtime for case in cases)), create(*(case.job for case in cases))]
    most = max(len(case.changes) for case in cases)
    with Run(planes[0], f"round-{name}") as go, Run(planes[1], f"round-{name}") as ours, ThreadPoolExecutor(2) as pool:
        for number in range(most + 2):
            said = pool.map(lambda run, number=number: _do(run, cases, steps, number), (go, ours))
            wrong = odd(_by_case(cases, *said, f"{number} answers"))
            if number == 0:
                found |= wrong
                continue

            def look(number=number, pool=pool, runs=(go, ours)):
                return odd(_by_case(cases, *pool.map(_objects, runs), str(number)))

            there = held(look, operator.not_, HOLD_S)
            for of, lines in [*wrong.items(), *there.items()]:
                found[of] = [*found.get(of, []), *lines]
    return found


def _do(run: Run, cases: Sequence[Case], steps: list[Json], number: int) -> Json:
    """Do a step of all cases; return what was answered by the name of the object."""
    if number < len(steps):
        return {answer[0].partition("/")[2]: answer for answer in run.do(steps[number])}
    at = number - len(steps)
    return {case.name: run.do(case.changes[at]) for case in cases if at < len(case.changes)}


def _objects(run: Run) -> Json:
    """Of a job whose JobSet is refused, Go makes what stands beside it or not: in the order of a hash, up to there."""
    found = run.objects()
    beside = [match for name in found if (match := _BESIDE.fullmatch(name)) and f"JobSet/{match[2]}" not in found]
    for match in beside:
        del found[match[0]]
    return run.told() | {name: _as_written(obj) if name.startswith("TrainJob/") else obj for name, obj in found.items()}


def _as_written(obj: Json) -> Json:
    """Leave out of the spec what Go's webhook leaves out when it writes a TrainJob anew."""

    def over(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: over(one) for key, one in value.items()}
            return {key: one for key, one in kept.items() if one not in ("", "0", 0, False, None, {}, [])}
        if isinstance(value, list):
            return [over(one) for one in value]
        if isinstance(value, str) and re.fullmatch(r"[0-9.]+[kMGTimu]*", value):
            return canonical(value)
        return value

    return obj | {"spec": over(obj["spec"])}


def _by_case(cases: Sequence[Case], go: Json, ours: Json, at: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    owner = {case.runtime["metadata"]["name"]: case.name for case in cases} | {case.name: case.name for case in cases}
    for key in sorted({*go, *ours}):
        name = key.partition("/")[2] or key
        of = owner.get(name) or next(one for one in owner.values() if name.startswith(f"{one}-"))
        shown = f"{at}/{key.replace(name, 'job')}" if name in owner else f"{at}/{key.replace(of, 'job')}"
        for line in differences(go.get(key), ours.get(key), shown):
            found.setdefault(of, []).append(line)
    return found


def shrink(planes: Sequence[Plane], name: str, case: Case, lines: list[str]) -> tuple[Case, list[str]]:
    """Take parts away as long as the same still differs; return what is left of the case and of the lines."""
    wanted, start = _places(lines), 0
    alone = case.runtime["metadata"]["name"].startswith("torchtune")
    until = time.monotonic() + SHRINK_S
    for attempt in count():
        smaller = list(islice(_smaller(case), start, start + AT_A_TIME))
        tries = [one.renamed(f"{case.name}x{number}") for number, one in enumerate(smaller)]
        if not tries or time.monotonic() > until:
            break
        found: dict[str, list[str]] = {}
        for number, some in enumerate([[one] for one in tries] if alone else [tries]):
            found |= play(planes, f"{name}-{attempt}-{number}", some)
        good = [one for one in tries if wanted & _places(found.get(one.name, []))]
        if good:
            case = min(good, key=_size).renamed(case.name)
            lines = found[min(good, key=_size).name]
        else:
            start += AT_A_TIME
    return case, lines


def _places(lines: list[str]) -> set[str]:
    return {re.sub(r"\[\d+\]|^\d+|\d", "", line.partition(": Go ")[0]) for line in lines}


def _size(case: Case) -> int:
    return len(str([case.runtime, case.job, case.changes]))


def _smaller(case: Case) -> Iterator[Case]:
    """Yield the case without one of its parts, the largest parts first."""
    whole = {"runtime": case.runtime, "job": case.job, "changes": case.changes}
    for path in sorted(_paths(whole), key=len):
        fewer: Any = copy.deepcopy(whole)
        holder = fewer
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
        yield Case(**fewer)


KEPT = {"runtime", "job", "changes", "kind", "name", "apiVersion", "metadata", "spec", "do", "patch", "manager"}


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        if key not in KEPT:
            yield (*at, key)
        yield from _paths(one, (*at, key))
