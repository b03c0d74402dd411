from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.jobs import indexes


@given(st.sets(st.integers(0, 200)))
def test_what_is_written_reads_back(numbers):
    assert set(indexes.parse(indexes.format_indexes(numbers), 201)) == numbers


def test_runs_of_three_are_joined_and_pairs_are_not():
    assert indexes.format_indexes([7, 1, 3, 4, 5]) == "1,3-5,7"
    assert indexes.format_indexes([1, 2]) == "1,2"
    assert indexes.format_indexes([]) == ""


def test_corrupt_pieces_are_ignored_and_large_ones_cut_off():
    assert indexes.parse("x,1,-3,2-y,4-9,12", 6) == {1, 4, 5}
