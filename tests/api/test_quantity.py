from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.quantity import NO_QUANTITY, canonical, canonical_amount, complaint, format_quantity, parse

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+1"]
quantities = st.builds(
    lambda sign, number, suffix: f"{sign}{number}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.decimals(0, 10**6, places=3).map(lambda d: f"{d:f}"),
    st.sampled_from(SUFFIXES),
)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1.5Gi", "1536Mi"),
        ("4.5", "4500m"),
        ("2560Mi", "2560Mi"),
        ("1024Ki", "1Mi"),
        ("1000m", "1"),
        ("0.1m", "100u"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12e-3", "12e-3"),
        ("1.5e3", "1500"),
        ("0Gi", "0"),
        ("1E", "1E"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        (".5", "500m"),
        ("9Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("7Ei", "7Ei"),
        ("1000e21", "1e24"),
        (".e3", "0"),
        (2.5, "2500m"),
        (3, "3"),
        ("1000Ki", "1000Ki"),
        (" 1 ", "1"),
        ("1Gi ", "1Gi"),
        ("\u20031.5\xa0", "1500m"),
        (1e16, "10P"),
        (1e-6, "1u"),
        (1e21, "1e+21"),
    ],
)
def test_canonical_form_is_that_of_the_api_server(written, stored):
    assert stored == canonical(written)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1.250", "1.250"),
        ("1.25", "1250m"),
        ("0.250", "250m"),
        ("1.000", "1"),
        ("1000", "1k"),
        ("1.250G", "1.250G"),
        ("1.0005e4", "1.0005e4"),
        ("1.000005", "1.000005"),
        ("1.000000000001", "1000000001n"),
        (2.125, "2.125"),
        ("+2", "+2"),
        ("007", "007"),
        ("5.", "5."),
        ("1E3", "1E3"),
        ("1e0", "1e0"),
        ("1E4", "10e3"),
        ("999999999999999999", "999999999999999999"),
        ("+9999999999999999999", "9999999999999999999"),
        ("+3Ki", "+3Ki"),
        ("+8Ki", "8Ki"),
        ("0099Ti", "0099Ti"),
        ("00123Ti", "123Ti"),
    ],
)
def test_a_text_that_the_api_server_takes_for_canonical_stays(written, stored):
    assert stored == canonical(written)


@pytest.mark.parametrize("text", ["+", "-.", "m", ".Ti", "Ki", "e3", ".e-9", "0Ei", ".0Ei"])
def test_a_text_without_digits_is_zero_as_it_is_for_the_api_server(text):
    assert parse(text) == 0
    assert canonical(text) == "0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "") for text in ("1", " 1", "m", "e1", "1e-9")),
        *((text, NO_QUANTITY) for text in ("", " ", "abc", "1 Gi", "1.2.3", "1,5", "\t1", "1\n", "0x10", "NaN")),
        *(
            (text, "unable to parse quantity's suffix")
            for text in ("1K", "1ki", "1e", "1e+", "--1", "1m5", "1e" + "9" * 20)
        ),
        *((text, "unable to parse numeric part of quantity") for text in ("Ei", "e-10")),
    ],
)
def test_what_the_api_server_says_of_a_text(text, said):
    assert said == complaint(text)


@pytest.mark.parametrize("again", [True, 1.0, "1"])
def test_what_is_kept_of_a_number_says_nothing_of_what_is_equal_to_it(again):
    """`True == 1`, and only one of the two is a quantity."""
    assert canonical(1) == "1"

    if again is True:
        with pytest.raises(ValueError, match="True is not a quantity"):
            canonical(again)
    else:
        assert canonical(again) == "1"


@given(quantities)
def test_canonical_form_keeps_the_value_and_is_stable(text):
    stored = canonical(text)

    assert parse(text) == parse(stored)
    assert stored == canonical(stored)


@given(st.fractions(-(2**63) + 1, 2**63 - 1, max_denominator=1000), st.sampled_from(["", "Mi", "m", "1e3"]))
def test_formatting_rounds_away_from_zero_by_less_than_a_nano(value, like):
    off = abs(parse(format_quantity(value, like=like))) - abs(value)

    assert 0 <= off < Fraction(1, 10**9)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1 Gi", "1gi", "1KI", "1e", "--1", "1m5", "0x1", "1e999999999", True, "1.2.3", "Ei", ".Pi", "e-10"],
)
def test_what_is_no_quantity_is_refused_with_its_text(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        *(("1u", "1m"), ("-1u", "-1m"), ("1.0005", "1001m"), ("0.5", "500m"), (0.25, "250m"), (2, "2")),
        *(("1e-9", "1e-3"), ("1.250", "1.250"), ("+2", "+2"), ("1.000005", "1001m"), ("1.001000", "1001m")),
    ],
)
def test_an_amount_in_a_list_of_resources_is_no_finer_than_a_thousandth(written, stored):
    assert stored == canonical_amount(written)


def test_a_long_text_is_read_like_a_short_one():
    zeros = "0" * 100

    assert (parse("7"), "7k") == (parse(f"{zeros}7"), canonical_amount(f"{zeros}7000"))
