"""
Kubernetes quantities (`1500m`, `2560Mi`, `3e9`), read and written exactly.

The canonical form keeps the value and the family of the suffix (binary, decimal, exponent), has no fraction, and takes
the largest suffix that allows that: `1.5Gi` is `1536Mi`, `4.5` is `4500m`. Amounts finer than a nano are rounded up,
away from zero, and binary ones end at 2^63 - 1, as at the API server.

What it stores is that form only where it has to write one: a text that it takes for canonical when it reads it stays as
it is, and its test of that is a rough one (`1.250`, `+2`, `1E3`, `5.` pass). It also reads most texts without a single
digit as zero. Both are as `ParseQuantity` of `k8s.io/apimachinery/pkg/api/resource` does them. Left out is what it does
to decimal amounts of 10^21 and more, whose suffix it drops.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
NO_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
"""What the API server says of what is none at all."""
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*+)\.?(?P<fraction>\d*+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?\d+))",
    re.ASCII,
)
_NANO: Final = 10**9
_LARGEST_BINARY: Final = 2**63 - 1
_MOST_DIGITS: Final = 18
"""Of a decimal number that surely fits into 64 bits."""
_MOST_BINARY_DIGITS: Final = 14
"""The same of a binary one, its suffix counted with three digits for each 2^10."""
_SHAPE: Final = re.compile(r"[+-]?\d*+\.?\d*+[eEinumkKMGTP]*+[+-]?\d*+", re.ASCII)
"""Of what is a number with some suffix, known or not."""
_BLANKS: Final = " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""Around a quantity in JSON, where it is cut off before its escapes are read: what JSON escapes is no blank."""
_MAX_EXPONENT: Final = 400
"""A bound on work, not a rule: no real quantity has four hundred digits."""
_LEAST_PLAIN: Final = 1e-6
_LEAST_EXPONENT: Final = 1e21
_KEPT: Final = 2048
_SHORT: Final = 32
"""Longer texts are read anew each time: what is kept must not grow with what clients send."""


def parse(quantity: str | float) -> Fraction:
    """
    The exact value of a quantity; numbers are read, too, as the API server does.

    Raises:
        ValueError: If it is none.
    """
    return _parse_kept(quantity) if type(quantity) is str and len(quantity) <= _SHORT else _parse(quantity)


def complaint(text: str) -> str:
    """Return what the API server says of a text in a field for a quantity; nothing if it is one."""
    text = text.strip(_BLANKS)
    try:
        parse(text)
    except ValueError:
        if not text or not _SHAPE.fullmatch(text):
            return NO_QUANTITY
        match = _QUANTITY.fullmatch(text)
        part = "numeric part of quantity" if match and not _has_digits(match) else "quantity's suffix"
        return f"unable to parse {part}"
    return ""


def format_quantity(value: Fraction | int, like: str | float = "") -> str:
    """The canonical text of a value, with suffixes of the same family as `like` has."""
    value = _round_up(Fraction(value))
    family = str(like)
    if _is_binary(family) and value.denominator == 1 and abs(value) >= 1024:
        return _format_binary(int(value))
    if re.search(r"[0-9.][eE][+-]?\d+$", family):
        return _format_decimal(value, exponents=True)
    return _format_decimal(value, exponents=False)


def canonical(quantity: str | float) -> str:
    """
    The quantity as the API server stores it: canonical, or the text itself where it takes that for canonical.

    Raises:
        ValueError: If it is none.
    """
    text = str(quantity) if type(quantity) is int else quantity
    return _canonical_kept(text) if type(text) is str and len(text) <= _SHORT else _canonical(text)


def canonical_amount(quantity: str | float) -> str:
    """
    The quantity as the API server stores it in a list of resources: no finer than a thousandth, away from zero.

    A text that it keeps is kept here, too, if its last digit is no finer.

    Raises:
        ValueError: If it is none.
    """
    return _amount_kept(quantity) if type(quantity) is str and len(quantity) <= _SHORT else _amount(quantity)


class _Read(NamedTuple):
    """A quantity that was read; `kept` is the power of ten of its last digit, if it is stored as it is written."""

    value: Fraction
    kept: int | None


def _parse(quantity: str | float) -> Fraction:
    return _read(quantity).value


def _read(quantity: str | float) -> _Read:
    match = _QUANTITY.fullmatch(_text(quantity))
    if not match or not match[0] or isinstance(quantity, bool):
        expected = "a number with m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent"
        raise ValueError(f"{quantity!r} is not a quantity: expected {expected}")
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"{quantity!r} is not a quantity: its exponent is out of range")
    suffix = match["suffix"] or ""
    read = _read_binary(match, suffix) if suffix in _BINARY else _read_decimal(match, exponent + _DECIMAL[suffix])
    if read is None:
        raise ValueError(f"{quantity!r} is not a quantity: expected a digit before {suffix or 'the exponent'}")
    return read._replace(value=-read.value) if match["sign"] == "-" else read


def _read_decimal(match: re.Match[str], power: int) -> _Read | None:
    """Read a number times a power of ten. None: it has no digits, and is not of those that are zero then."""
    digits = _whole(match) + match["fraction"]
    last = power - len(match["fraction"])
    is_short = len(digits) <= _MOST_DIGITS and last >= _DECIMAL["n"]
    if not is_short and not _has_digits(match):
        return None
    is_kept = is_short and last % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
    return _Read(_round_up(int(digits) * Fraction(10) ** last), last if is_kept else None)


def _read_binary(match: re.Match[str], suffix: str) -> _Read | None:
    """Read a number times a power of 1024. None as for decimals."""
    whole, fraction = _whole(match), match["fraction"]
    factor = _BINARY[suffix]
    is_short = not fraction and len(whole) + 3 * (factor.bit_length() // 10) <= _MOST_BINARY_DIGITS
    if not is_short and not _has_digits(match):
        return None
    value = _round_up(Fraction(int(whole + fraction) * factor, 10 ** len(fraction)))
    return _Read(min(value, Fraction(_LARGEST_BINARY)), 0 if is_short and int(whole) % 8 else None)


def _whole(match: re.Match[str]) -> str:
    return match["whole"].lstrip("0") or "0"


def _has_digits(match: re.Match[str]) -> bool:
    return bool(match["whole"] or match["fraction"])


def _text(quantity: str | float) -> str:
    if not isinstance(quantity, float):
        return str(quantity)
    # As Go writes floats in JSON, and as JavaScript does.
    return f"{Decimal(repr(quantity)):f}" if _LEAST_PLAIN <= abs(quantity) < _LEAST_EXPONENT else repr(quantity)


def _canonical(quantity: str | float) -> str:
    quantity = _written(quantity)
    read = _read(quantity)
    return format_quantity(read.value, like=quantity) if read.kept is None else _text(quantity)


def _amount(quantity: str | float) -> str:
    quantity = _written(quantity)
    value, kept = _read(quantity)
    if kept is not None and kept >= _DECIMAL["m"]:
        return _text(quantity)
    thousandths = math.ceil(abs(value) * 1000)
    return format_quantity(Fraction(thousandths if value > 0 else -thousandths, 1000), like=quantity)


def _written(quantity: str | float) -> str | float:
    return quantity if isinstance(quantity, bool) else _text(quantity).strip(_BLANKS)


# The same few amounts are in every pod and every TrainJob. Reading them is most of what defaulting and validating a pod
# costs, and a third of what a pipeline does.
_parse_kept = lru_cache(maxsize=_KEPT)(_parse)
_canonical_kept = lru_cache(maxsize=_KEPT)(_canonical)
_amount_kept = lru_cache(maxsize=_KEPT)(_amount)


def _is_binary(text: str) -> bool:
    return text[-2:] in _BINARY


def _round_up(value: Fraction) -> Fraction:
    scaled = value * _NANO
    if scaled.denominator == 1:
        return value
    away = -(-scaled.numerator // scaled.denominator) if scaled > 0 else scaled.numerator // scaled.denominator
    return Fraction(away, _NANO)


def _format_binary(value: int) -> str:
    chosen = ""
    for suffix, factor in _BINARY.items():
        if value % factor == 0:
            chosen = suffix
    return f"{value // _BINARY.get(chosen, 1)}{chosen}"


def _format_decimal(value: Fraction, *, exponents: bool) -> str:
    if value == 0:
        return "0"
    if exponents:
        return _format_exponent(int(value * _NANO))
    for suffix, power in reversed(_DECIMAL.items()):
        mantissa = value / Fraction(10) ** power
        if mantissa.denominator == 1:
            return f"{mantissa}{suffix}"
    raise AssertionError("values are whole numbers of nanos")


def _format_exponent(nanos: int) -> str:
    mantissa, power = nanos, -9
    while mantissa % 1000 == 0:
        mantissa, power = mantissa // 1000, power + 3
    return f"{mantissa}e{power}" if power else f"{mantissa}"
