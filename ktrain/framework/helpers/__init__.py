"""
What many reconcilers need around their writes.

    conflicts    retry_on_conflict: read again and try again         upsert      create_or_update with a mutate function
    ownership    whose child an object is                            finalizers  added and removed without races
    conditions   of a status, with times that change only when they do
    merging      the merge patch between two states of an object
"""

from __future__ import annotations

from .conditions import set_condition as set_condition
from .conflicts import retry_on_conflict as retry_on_conflict
from .finalizers import add_finalizer as add_finalizer
from .finalizers import has_finalizer as has_finalizer
from .finalizers import remove_finalizer as remove_finalizer
from .merging import merge_from as merge_from
from .ownership import set_controller_reference as set_controller_reference
from .ownership import set_owner_reference as set_owner_reference
from .upsert import Outcome as Outcome
from .upsert import create_or_update as create_or_update

__all__ = [
    "Outcome",
    "add_finalizer",
    "create_or_update",
    "has_finalizer",
    "merge_from",
    "remove_finalizer",
    "retry_on_conflict",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]
