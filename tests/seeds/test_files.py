"""The files of the examples themselves."""

import pytest

from ktrain.api import documents as reader

from .conftest import EXAMPLES, documents

FILES = sorted(EXAMPLES.rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_names_its_place_and_lists_its_changes(path):
    lines = path.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]

    assert head == lines[: len(head)]
    assert "KEP-" in head[0] or "proposal" in head[0]
    assert len(head) == 1 or head[1] == "# Changed: nothing." or (head[1] == "# Changed:" and head[2:])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_a_file_that_ktrain_reads(path):
    assert len(reader.load([path])) == len(documents(str(path.relative_to(EXAMPLES))))


def test_no_document_lacks_its_examples():
    found = {folder.name: len(list(folder.glob("*.yaml"))) for folder in EXAMPLES.iterdir()}

    assert found == {"trainer": 15, "elastic": 1, "workload": 3, "startup": 3}
    assert all(documents(str(path.relative_to(EXAMPLES))) for path in FILES)
