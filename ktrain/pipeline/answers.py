"""
What hooks may return. A plugin is recognised by the names of its methods; so what they return is anybody's guess.

Asked of other people's plugins only: ours are type-checked.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeGuard

from ktrain.api.meta import Condition, Resource
from ktrain.api.trainer import CONDITION_COMPLETE, CONDITION_FAILED, JobStatus

from .findings import Findings
from .points import Address, Component, Gang, Removal, Size

if TYPE_CHECKING:
    from collections.abc import Callable


def _is_component(value: object) -> bool:
    if not isinstance(value, Component) or not isinstance(value.resource, Resource):
        return False
    metadata = value.body.get("metadata") if isinstance(value.body, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("name")) and isinstance(metadata["name"], str)


def _all(value: object, is_one: Callable[[object], bool]) -> bool:
    return isinstance(value, list | tuple) and all(map(is_one, value))


def _is_a(type_: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, type_)


def _is_stored(value: object) -> TypeGuard[Condition]:
    """Whether it is a condition that the API server stores, whatever its type."""
    if not isinstance(value, Condition):
        return False
    if not all(isinstance(part, str) for part in (value.type, value.status, value.reason, value.message)):
        return False
    if not isinstance(value.last_transition_time, datetime | None):
        return False
    return bool(_REASON.fullmatch(value.reason)) and len(value.message) <= _MAX_MESSAGE


def _is_end(value: object) -> bool:
    return _is_stored(value) and value.type in _ENDS and value.is_true


def _is_own(value: object) -> bool:
    """Whether it is a condition that is a plugin's: its type has a prefix, so that it is not one of Kubeflow's."""
    if not _is_stored(value) or not isinstance(value.observed_generation, int | None):
        return False
    is_typed = bool(_OWN_TYPE.fullmatch(value.type)) and len(value.type) <= _MAX_TYPE
    return is_typed and value.status in ("True", "False", "Unknown")


_DNS: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OWN_TYPE: Final = re.compile(rf"{_DNS}(\.{_DNS})*/([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_MAX_TYPE: Final = 316
_ENDS: Final = (CONDITION_COMPLETE, CONDITION_FAILED)
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
_MAX_MESSAGE: Final = 32768
_NOTHING: Final = ("nothing: it changes the Info", lambda value: value is None)
_ANSWERS: Final[dict[str, tuple[str, Callable[[object], bool]]]] = {
    "CustomValidation": ("Findings", _is_a(Findings)),
    "RuntimeValidation": ("Findings", _is_a(Findings)),
    "EnforcePodGroupPolicy": _NOTHING,
    "EnforceMLPolicy": _NOTHING,
    "EnforcePodSpec": _NOTHING,
    "PodNetwork": _NOTHING,
    "ComponentBuilder": (
        "a list of Components, each with a Resource and a body that has a name",
        lambda value: _all(value, _is_component),
    ),
    "TerminalCondition": (
        "a Condition or None: Complete or Failed, True, with a reason in CamelCase and a message",
        lambda value: value is None or _is_end(value),
    ),
    "Conditions": (
        (
            "a list of Conditions, each of a type with a prefix (example.com/Checkpointed), with the status True, False"
            " or Unknown, a reason in CamelCase and a message"
        ),
        lambda value: _all(value, _is_own),
    ),
    "Status": (
        "a tuple of JobStatus or None",
        lambda value: value is None or (isinstance(value, tuple) and _all(value, _is_a(JobStatus))),
    ),
    "Elasticity": ("a Size or None", lambda value: value is None or isinstance(value, Size)),
    "Gangs": ("a list of Gangs", lambda value: _all(value, _is_a(Gang))),
    "Upkeep": ("a list of Addresses", lambda value: _all(value, _is_a(Address))),
    "CleanUp": ("a list of Removals", lambda value: _all(value, _is_a(Removal))),
}


def wrong_answer(hook: str, answer: object) -> str:
    """Say what is wrong with what a hook returned; empty if nothing is."""
    expected, fits = _ANSWERS[hook]
    return "" if fits(answer) else f"it returned {answer!r:.100}, where what is expected is {expected}"
