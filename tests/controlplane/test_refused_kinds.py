"""
What the API server refuses of its own kinds when they are created and changed, and in which words: `tables/kinds/`.

The tables were made by changing valid objects in some thousand ways and asking a real server; these are the most
telling answers.
"""

import copy
import re
import secrets
from pathlib import Path

import pytest
import yaml

TABLES = {
    kind: table
    for file in sorted((Path(__file__).parent / "tables" / "kinds").glob("*.yaml"))
    for kind, table in yaml.safe_load(file.read_text()).items()
}
PART = re.compile(r'"[^"]*"|[^.\[\]]+')


def cases(when):
    return [
        pytest.param(kind, case["set"], case["causes"], id=f"{kind}: {case['set']}")
        for kind, table in TABLES.items()
        for case in table.get(when, ())
    ]


def with_parts(obj, parts):
    """Return a copy of an object in which each path has its new value."""
    changed = copy.deepcopy(obj)
    for path, value in parts.items():
        *way, last = PART.findall(path)
        place = changed
        for name in way:
            if not place.get(name):
                place[name] = {}
            place = place[name]
        place[last] = value
    return changed


@pytest.fixture
async def a_base(ask):
    """`await a_base(kind)` stores the table's object and returns its path."""
    made = []

    async def make(kind):
        table = TABLES[kind]
        # Volumes take their time to go, and not all kinds have the test's namespace.
        name = "base" if "{ns}" in table["path"] else f"base-{secrets.token_hex(4)}"
        answer = await ask("POST", table["path"], with_parts(table["object"], {"metadata.name": name}))
        assert answer.status == 201, answer
        made.append(f"{table['path']}/{name}")
        return made[-1]

    yield make
    for path in made:
        await ask("DELETE", path)


def causes_of(said):
    return {f"{field}: {message}" for field, message in said.causes}


@pytest.mark.parametrize(("kind", "parts", "causes"), cases("created"))
async def test_what_cannot_be_created_is_refused_with_its_causes(ask, kind, parts, causes):
    table = TABLES[kind]
    said = await ask("POST", f"{table['path']}?dryRun=All", with_parts(table["object"], parts))

    assert said.status == 422, said
    assert causes_of(said) == set(causes)


@pytest.mark.parametrize(("kind", "parts", "causes"), cases("changed"))
async def test_what_cannot_change_is_refused_with_its_causes(ask, a_base, kind, parts, causes):
    path = await a_base(kind)
    said = None
    while said is None or said.status == 409:  # controllers write, too
        stored = (await ask("GET", path)).body
        said = await ask("PUT", f"{path}?dryRun=All", with_parts(stored, parts))

    assert said.status == 422, said
    assert causes_of(said) == set(causes)
