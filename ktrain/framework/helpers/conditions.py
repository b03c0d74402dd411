"""
Conditions of a status: one entry per type, and a time that tells when it last changed its mind.

A condition is a list entry that many controllers write and that people and `kubectl wait` read. What goes wrong when it
is written by hand is always the same: the time moves with every pass, and so every pass writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ktrain.api.meta import Json

MAX_MESSAGE: Final = 32768
"""Characters, as metav1.Condition allows."""


def set_condition(
    conditions: Sequence[Json],
    type_: str,
    *,
    status: bool | None,
    reason: str,
    now: datetime,
    message: str = "",
    generation: int = 0,
) -> list[Json]:
    """
    Return the conditions with this one set; equal to `conditions` if nothing has changed, so that nothing is written.

    Args:
        conditions: As in the object's status, plain JSON (metav1.Condition). Not changed.
        type_: CamelCase, for example `Ready`.
        status: None is `Unknown`.
        reason: One CamelCase word; the API demands one.
        now: The time of a change of `status`; any other change leaves the time as it was.
        message: A sentence for people; what is too long is cut.
        generation: `metadata.generation` of the object that this is about; 0 leaves it out.

    Raises:
        ValueError: No reason is given.
    """
    if not reason:
        raise ValueError(f"the condition {type_} needs a reason: the API server refuses it without one")
    word = "Unknown" if status is None else str(status)
    before = next((one for one in conditions if one.get("type") == type_), None)
    since = before.get("lastTransitionTime") if before and before.get("status") == word else None
    after: Json = {
        "type": type_,
        "status": word,
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "lastTransitionTime": since or format_time(now),
        **({"observedGeneration": generation} if generation else {}),
    }
    if before is None:
        return [*conditions, after]
    return [after if one is before else one for one in conditions]
