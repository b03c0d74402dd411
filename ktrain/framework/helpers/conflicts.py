"""
Trying again after a conflict.

In a reconciler the better answer to a conflict is mostly none: let the error end the pass, and the next one begins with
what is there now. This is for writes that are not part of a pass, or that everybody makes to one object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ktrain.framework.errors import ApplyConflict, Conflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ktrain.framework.env import Env

T = TypeVar("T")

JITTER = 0.1


async def retry_on_conflict(
    env: Env, attempt: Callable[[], Awaitable[T]], *, steps: int = 5, delay_s: float = 0.01, factor: float = 1.0
) -> T:
    """
    Call `attempt` until it meets no conflict, at most `steps` times (client-go's numbers).

    `attempt` reads the object each time: what it read before is what the conflict is about. A name that was taken
    meanwhile (AlreadyExists) is a conflict, too; that another manager owns a field (ApplyConflict) will not pass.

    Args:
        env: Time and randomness.
        attempt: Reads, changes and writes.
        steps: Attempts in all.
        delay_s: Seconds before the second one, and up to a tenth more.
        factor: What the delay grows by each time. Where many write at once, 4 steps by 5 spread better.

    Raises:
        Conflict: The last one.
    """
    for step in range(1, steps):
        try:
            return await attempt()
        except ApplyConflict:
            raise
        except Conflict:
            await env.clock.sleep(delay_s * factor ** (step - 1) * env.random.uniform(1.0, 1.0 + JITTER))
    return await attempt()
