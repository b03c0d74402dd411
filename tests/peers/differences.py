"""A case on two planes, step by step, and where they differ."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from .runner import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .objects import Json
    from .runner import Plane

T = TypeVar("T")
STEP_S = 30.0
HOLD_S = 1.5
"""For how long two planes have to be the same."""


def compare(planes: Sequence[Plane], name: str, steps: Sequence[Json], is_known: Callable[[str], bool]) -> list[str]:
    """
    Do a case on both planes, Go's first; return where they differ, up to the first step in which they do so unknown.

    A step is over when both are the same for a while, or time is up.
    """
    found: list[str] = []
    with Run(planes[0], f"case-{name}") as go, Run(planes[1], f"case-{name}") as ours, ThreadPoolExecutor(2) as pool:
        for number, step in enumerate(steps):
            said = list(differences(*pool.map(lambda run, step=step: run.do(step), (go, ours)), f"{number} answers"))

            def look(number=number, pool=pool, runs=(go, ours)):
                return list(differences(*pool.map(lambda run: run.objects(), runs), str(number)))

            found += said + held(look, lambda there: all(map(is_known, there)), HOLD_S)
            if not all(map(is_known, found)):
                break
    return found


def held(look: Callable[[], T], is_right: Callable[[T], bool], hold_s: float) -> T:
    """Look again and again until what is seen has been right for so long, or `STEP_S` is over; what was seen last."""
    started = since = time.monotonic()
    while True:
        found, now = look(), time.monotonic()
        since = since if is_right(found) else now
        if now - since > hold_s or now - started > STEP_S:
            return found
        time.sleep(0.2)


def differences(go: Any, ours: Any, at: str = "") -> Iterator[str]:
    """Yield a line for each place."""
    if isinstance(go, dict) and isinstance(ours, dict):
        for key in sorted({*go, *ours}):
            yield from differences(go.get(key), ours.get(key), f"{at}/{key}")
    elif isinstance(go, list) and isinstance(ours, list) and len(go) == len(ours):
        for index, (one, other) in enumerate(zip(go, ours, strict=True)):
            yield from differences(one, other, f"{at}[{index}]")
    elif go != ours:
        yield f"{at}: Go {json.dumps(go)[:400]}, ktrain {json.dumps(ours)[:400]}"
