"""
Kubernetes quantities (`1500m`, `2560Mi`, `3e9`), read and written exactly.

The canonical form keeps the value and the family of the suffix (binary, decimal, exponent), has no fraction, and takes
the largest suffix that allows that: `1.5Gi` is `1536Mi`, `4.5` is `4500m`. Amounts finer than a nano are rounded up,
away from zero, as the API server does. Source: the documentation of `k8s.io/apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?\d+))", re.ASCII
)
_NANO: Final = 10**9
_MAX_EXPONENT: Final = 400
"""A bound on work, not a rule: no real quantity has four hundred digits."""
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
    The quantity as the API server stores it.

    Raises:
        ValueError: If it is none.
    """
    text = str(quantity) if type(quantity) is int else quantity
    return _canonical_kept(text) if type(text) is str and len(text) <= _SHORT else _canonical(text)


def canonical_amount(quantity: str | float) -> str:
    """
    The quantity as the API server stores it in a list of resources: no finer than a thousandth, away from zero.

    Raises:
        ValueError: If it is none.
    """
    return _amount_kept(quantity) if type(quantity) is str and len(quantity) <= _SHORT else _amount(quantity)


def _parse(quantity: str | float) -> Fraction:
    text = repr(quantity) if isinstance(quantity, float) else str(quantity)
    match = _QUANTITY.fullmatch(text)
    if match is None or isinstance(quantity, bool):
        expected = "a number with m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent"
        raise ValueError(f"{quantity!r} is not a quantity: expected {expected}")
    number = Fraction(match["number"].rstrip("."))
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"{quantity!r} is not a quantity: its exponent is out of range")
    suffix = match["suffix"] or ""
    value = number * (_BINARY[suffix] if suffix in _BINARY else Fraction(10) ** (_DECIMAL[suffix] + exponent))
    return _round_up(value)


def _canonical(quantity: str | float) -> str:
    return format_quantity(parse(quantity), like=quantity)


def _amount(quantity: str | float) -> str:
    value = parse(quantity)
    thousandths = math.ceil(abs(value) * 1000)
    return format_quantity(Fraction(thousandths if value > 0 else -thousandths, 1000), like=quantity)


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
    for suffix, power in reversed(_DECIMAL.items()):
        mantissa = value / Fraction(10) ** power
        if mantissa.denominator == 1:
            if exponents and power:
                return f"{mantissa}e{power}"
            return f"{mantissa}{suffix}"
    raise AssertionError("values are whole numbers of nanos")
