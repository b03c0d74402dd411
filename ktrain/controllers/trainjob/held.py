"""
What is held back by an object of the job's that is being deleted and does not go, because of its finalizers. Pure.

Usually it is gone in a moment, and that is no news. If it stays, the job says what it waits for, which no other object
shows; and so a process that comes after this one knows that not all is written (see `build`). Until then the status
does not say that the job has begun or goes on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from . import status as statuses
from .observe import HELD_BACK, Failure

if TYPE_CHECKING:
    from datetime import datetime

    from ktrain.api.meta import Object

    from .decision import Decision
    from .writing import Writing


def told(decision: Decision, writing: Writing, now: datetime) -> Decision:
    """Return *decision* with what there is to say of what *writing* waits for, or when there may be."""
    for identity, obj in writing.held_by:
        left_s = _left_s(obj, now)
        if left_s <= 0:
            return replace(decision, failure=_failure(identity, obj))
        waits = (decision.requeue_after_s, left_s)
        decision = replace(decision, requeue_after_s=min(wait for wait in waits if wait is not None))
    return decision


def _left_s(obj: Object, now: datetime) -> float:
    """How long it may well take to go; times of deletion are whole seconds."""
    since = obj.metadata.deletion_timestamp or now
    return (since + timedelta(seconds=statuses.DIAGNOSE_AFTER_S) - now).total_seconds()


def _failure(identity: str, obj: Object) -> Failure:
    by = f", held by {', '.join(obj.metadata.finalizers)}" if obj.metadata.finalizers else ""
    message = f"{identity} is being deleted{by}; when it is gone, it is made again, and what comes after it"
    return Failure(HELD_BACK, message, at_once=True, event=HELD_BACK, is_final=True)
