"""The one error inside groups of errors."""

from __future__ import annotations

from ktrain.framework.parallel import first_cause, unwrap


def test_a_group_of_one_is_unwrapped_to_its_error() -> None:
    cause = OSError("no route")
    assert unwrap(ExceptionGroup("outer", [ExceptionGroup("inner", [cause])])) is cause


def test_a_group_of_several_is_kept_by_unwrap_and_opened_by_first_cause() -> None:
    cause = OSError("no route")
    group = ExceptionGroup("both", [ExceptionGroup("inner", [cause]), ValueError("second")])
    assert unwrap(group) is group
    assert first_cause(group) is cause
