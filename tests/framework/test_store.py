import ast
import inspect
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain import framework
from ktrain.api.meta import Key, Object, ObjectMeta
from ktrain.framework.cache.store import Store
from ktrain.framework.parallel import run_all, unwrap

KEYS = [Key("ns", name) for name in "abc"]


def made(key, label):
    return Object(metadata=ObjectMeta(name=key.name, namespace=key.namespace, labels={"l": label}))


def labels(obj):
    return list(obj.metadata.labels["l"])


contents = st.dictionaries(st.sampled_from(KEYS), st.text("xyz", max_size=2))


@given(
    steps=st.lists(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.text("xyz", max_size=2))
        | st.tuples(st.just("remove"), st.sampled_from(KEYS))
        | st.tuples(st.just("replace"), contents)
    ),
    late=st.booleans(),
)
def test_indexes_always_agree_with_the_content(steps, late):
    store, model = Store(), {}
    if not late:
        store.add_index("l", labels)
    for step in steps:
        match step:
            case ("put", key, text):
                assert store.put(key, made(key, text)) == model.get(key)
                model[key] = made(key, text)
            case ("remove", key):
                assert store.remove(key) == model.pop(key, None)
            case ("replace", content):
                before, model = model, {key: made(key, text) for key, text in content.items()}
                after = store.successor(dict(model))
                for key, obj in model.items():
                    after.index(key, obj)
                changes = list(store.become(after))
                assert sorted(changes, key=lambda change: change.key) == [
                    (key, before.get(key), model.get(key)) for key in sorted({*before, *model})
                ]
    if late:
        store.add_index("l", labels)
    assert dict(store.items()) == model
    for value in "xyz":
        assert sorted(o.metadata.name for o in store.by_index("l", value)) == sorted(
            key.name for key, obj in model.items() if value in obj.metadata.labels["l"]
        )


def test_an_index_that_nobody_uses_any_more_keeps_nothing():
    store = Store()
    store.add_index("l", labels)
    for n in range(100):
        store.put(KEYS[0], made(KEYS[0], chr(200 + n)))
    store.remove(KEYS[0])
    assert store._indexes["l"]._keys == {}


def test_an_index_added_while_a_successor_is_built_is_there_afterwards():
    store = Store()
    after = store.successor({KEYS[0]: made(KEYS[0], "x")})
    store.add_index("l", labels)
    list(store.become(after))
    assert [obj.metadata.name for obj in store.by_index("l", "x")] == ["a"]


def test_a_name_is_taken_once():
    store = Store()
    store.add_index("l", labels)
    with pytest.raises(ValueError, match="already an index named 'l'"):
        store.add_index("l", labels)
    with pytest.raises(KeyError):
        store.by_index("other", "x")


async def test_calls_run_together_within_the_limit_and_one_failure_stops_none():
    running, most, done = 0, 0, []

    async def call(n):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await framework.system_env().clock.sleep(0)
        running -= 1
        done.append(n)
        if n == 2:
            raise ValueError(n)

    with pytest.raises(ValueError, match="2"):
        await run_all([lambda n=n: call(n) for n in range(7)], limit=3)
    assert (most, sorted(done)) == (3, list(range(7)))


def test_the_one_error_inside_groups_comes_out():
    inner = ValueError("x")
    assert unwrap(ExceptionGroup("a", [ExceptionGroup("b", [inner])])) is inner
    two = ExceptionGroup("a", [ValueError(), ValueError()])
    assert unwrap(two) is two


def test_the_public_names_are_those_that_type_checkers_see():
    tree = ast.parse(inspect.getsource(framework))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname: getattr(import_module("." * node.level + node.module, framework.__name__), alias.name)
        for node in guarded.body
        for alias in node.names
    }
    assert set(framework.__all__) == set(seen)
    assert {name: getattr(framework, name) for name in seen} == seen
