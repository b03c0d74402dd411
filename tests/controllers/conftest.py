"""Bodies that fit no schema: defaults see them before the schema does."""

from __future__ import annotations

import copy
from functools import reduce

import pytest

NONSENSE = [None, "", "x", [], {}, 0, -1, 2**63, 1e308, True, [None], {"a": None}, ["a", "a"], [[]], {"": ""}, [{}]]


def paths(value, here=()):
    yield here
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from paths(inner, (*here, key))


def with_nonsense(document):
    for *path, last in filter(None, paths(document)):
        for nonsense in NONSENSE:
            body = copy.deepcopy(document)
            reduce(lambda part, key: part[key], path, body)[last] = nonsense
            yield body


@pytest.fixture(scope="session")
def mistyped():
    """Makes, from an object, all that differ from it by nonsense in one place."""
    return with_nonsense
