from datetime import UTC, datetime, timedelta

import pytest

from ktrain.framework.helpers import set_condition

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def ready(conditions, *, status=True, now=NOW, **more):
    return set_condition(conditions, "Ready", status=status, reason="Answers", now=now, **more)


def test_the_same_again_is_equal_and_so_nothing_need_be_written():
    first = ready([{"type": "Synced", "status": "True"}])

    assert ready(first, now=LATER) == first
    assert first[1]["lastTransitionTime"] == "2030-01-01T00:00:00Z"


def test_the_time_moves_with_the_status_and_with_nothing_else():
    first = ready([])
    (reworded,) = ready(first, now=LATER, message="after 3 tries", generation=7)
    (turned,) = ready(first, now=LATER, status=None)

    assert reworded["lastTransitionTime"] == "2030-01-01T00:00:00Z"
    assert (reworded["message"], reworded["observedGeneration"]) == ("after 3 tries", 7)
    assert (turned["lastTransitionTime"], turned["status"]) == ("2030-01-01T01:00:00Z", "Unknown")


def test_others_keep_their_place_and_what_was_given_is_not_changed():
    before = [{"type": "Ready", "status": "False"}, {"type": "Synced", "status": "True"}]
    after = ready(before)

    assert [one["type"] for one in after] == ["Ready", "Synced"]
    assert before[0] == {"type": "Ready", "status": "False"}


def test_a_condition_without_a_reason_is_refused_here_and_not_by_the_server():
    with pytest.raises(ValueError, match="needs a reason"):
        set_condition([], "Ready", status=True, reason="", now=NOW)
