"""Several calls at once, and the one error inside groups of errors."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
import pytest

from ktrain.framework.parallel import first_cause, run_all, unwrap


def test_a_group_of_one_is_unwrapped_to_its_error() -> None:
    cause = OSError("no route")
    assert unwrap(ExceptionGroup("outer", [ExceptionGroup("inner", [cause])])) is cause


def test_a_group_of_several_is_kept_by_unwrap_and_opened_by_first_cause() -> None:
    cause = OSError("no route")
    group = ExceptionGroup("both", [ExceptionGroup("inner", [cause]), ValueError("second")])
    assert unwrap(group) is group
    assert first_cause(group) is cause


@pytest.mark.parametrize("ends_by", ["deadline", "scope"])
async def test_all_calls_end_with_the_one_who_waits_for_them(ends_by: str) -> None:
    ended: list[int] = []
    begun: list[int] = []

    async def call(number: int) -> None:
        begun.append(number)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(number)

    calls = [partial(call, number) for number in range(3)]
    if ends_by == "scope":
        with anyio.move_on_after(0.01) as scope:
            await run_all(calls, limit=2)
        assert scope.cancelled_caught
    else:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run_all(calls, limit=2)

    assert sorted(ended) == begun == [0, 1]


async def test_a_failure_keeps_no_other_call_from_being_made_and_is_raised_afterwards() -> None:
    done: list[int] = []

    async def call(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)
        if number < 2:
            raise OSError(f"call {number}")

    with pytest.raises(OSError, match="call 0"):
        await run_all([partial(call, number) for number in range(5)], limit=2)

    assert sorted(done) == [0, 1, 2, 3, 4]
