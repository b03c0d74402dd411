import pytest

from ktrain.api.sharing import pack, unpack

POD = {"spec": {"containers": [{"name": "a", "args": []}]}}
DOCUMENTS = [
    {},
    [],
    [1, "a", None, True, 0.5, [[]]],
    {"first": POD, "second": {"template": POD}, "same": [POD["spec"], POD["spec"]]},
    {"numbers": [[0], [1], [[2]]], "0": {"0": {"0": [0]}}},
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=repr)
def test_what_is_packed_comes_back(document):
    assert unpack(pack(document)) == document


def test_equal_parts_are_stored_once_and_become_one_object():
    packed = pack({"first": POD, "second": {"template": POD}})

    found = unpack(packed)

    assert packed.count(b"containers") == 1
    assert found["first"] is found["second"]["template"]


def test_numbers_that_are_equal_only_to_python_stay_apart():
    found = unpack(pack({"a": [1], "b": [1.0], "c": [True]}))

    assert [type(found[name][0]) for name in "abc"] == [int, float, bool]
