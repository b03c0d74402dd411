"""Finding plugins and putting them in order."""

import sys
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Object, Resource
from ktrain.pipeline import Registry, RegistryError, Watch
from ktrain.pipeline.registry import GROUP
from ktrain.plugins.jobset import JOB_SET_STATES, JobSet


def plugin(name: str, *, before=(), after=()):
    methods = {"name": name, "before": before, "after": after, "enforce_ml_policy": lambda self, info, ctx: None}
    return type(name, (), methods)()


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")).filter(lambda pair: pair[0] < pair[1]),
        max_size=12,
    ),
    st.permutations("abcdefgh"),
)
def test_order_keeps_every_wish_and_does_not_depend_on_the_order_of_discovery(pairs, names):
    def plugins(order):
        # Half of the wishes are said by the first plugin, half by the second; smaller names first, so no cycle.
        return [
            plugin(
                name,
                before=[b for i, (a, b) in enumerate(pairs) if a == name and i % 2],
                after=[a for i, (a, b) in enumerate(pairs) if b == name and not i % 2],
            )
            for name in order
        ]

    order = Registry(plugins(names)).names

    assert order == Registry(plugins("abcdefgh")).names
    assert all(order.index(a) < order.index(b) for a, b in pairs)


def test_without_wishes_names_decide():
    assert Registry([plugin("b"), plugin("a"), plugin("C")]).names == ("C", "a", "b")


def test_wishes_about_plugins_that_are_not_installed_say_nothing():
    assert Registry([plugin("a", after=["nobody"], before=["nobody"])]).names == ("a",)


def test_a_circle_of_wishes_is_named():
    with pytest.raises(RegistryError, match=r"in a circle: a -> c -> b -> a"):
        Registry([plugin("a", after=["c"]), plugin("b", after=["a"]), plugin("c", after=["b"]), plugin("d")])


def test_two_plugins_of_one_name_are_an_error():
    with pytest.raises(RegistryError, match="called a"):
        Registry([plugin("a"), plugin("a")])


def test_wishes_that_are_no_tuple_are_an_error():
    with pytest.raises(RegistryError, match="plugin a: `before` must be a tuple of names"):
        Registry([plugin("a", before="b"), plugin("b")])


MODULE = """
class Third:
    name = "Third"
    after = ("PlainML",)

    def enforce_pod_spec(self, info, ctx):
        pass

class Nameless:
    def enforce_pod_spec(self, info, ctx):
        pass

class Useless:
    name = "Useless"

class Raising:
    def __init__(self):
        raise RuntimeError("no licence")

class Leaving:
    def __init__(self):
        raise SystemExit("no GPU here")

class Waiting:
    name = "Waiting"

    async def build(self, info, ctx):
        return ()

class Field:
    name = "Field"
    validate = "yes"

class Text:
    name = "Text"
    after = "PlainML"

    def enforce_pod_spec(self, info, ctx):
        pass

class Taker:
    name = "JobSet"

    def enforce_pod_spec(self, info, ctx):
        pass

NUMBER = 7
"""
UNUSABLE = {
    "Nameless": "no attribute `name`",
    "Useless": "extension points",
    "Raising": "no licence",
    "Leaving": "no GPU here",
    "Waiting": "its `build` is a coroutine function, and hooks are synchronous",
    "Field": "its `validate` is no method",
    "Text": "`after` must be a tuple of names",
    "NUMBER": "'int' object is not callable",
    "Absent": "no attribute 'Absent'",
    "AATaker": "another plugin is called 'JobSet', too",
}


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """A wheel of somebody else's, as pip would leave it, with one usable plugin and many that are not."""
    (tmp_path / "third_party_plugins.py").write_text(MODULE)
    info = tmp_path / "third_party_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-plugins\nVersion: 1.0\n")
    lines = [f"{name} = third_party_plugins:{name.removeprefix('AA')}" for name in ("Third", *UNUSABLE)]
    missing = "Missing = third_party_plugins.nowhere:Missing"
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, missing, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("third_party_plugins", None)


@pytest.mark.usefixtures("distribution")
def test_a_plugin_from_another_distribution_is_found_by_its_entry_point():
    assert "Third" in Registry.load().names


@pytest.mark.usefixtures("distribution")
def test_a_plugin_that_cannot_be_loaded_costs_only_itself_and_is_reported():
    registry = Registry.load()
    reasons = {failure.name: failure.reason for failure in registry.failures}

    assert "Third" in registry.names
    assert {name: text for name, text in UNUSABLE.items() if text not in reasons[name]} == {}
    assert "third_party_plugins.nowhere" in next(f.origin for f in registry.failures if f.name == "Missing")


@pytest.mark.usefixtures("distribution")
def test_nobody_takes_the_place_of_a_built_in_plugin_by_its_name():
    (job_set,) = (one for one in Registry.load().plugins if one.name == "JobSet")

    assert isinstance(job_set, JobSet)


def test_built_in_plugins_load_like_anyone_elses():
    entry_points = [
        EntryPoint("PlainML", "ktrain.plugins.plainml:PlainML", GROUP),
        EntryPoint("Torch", "ktrain.plugins.torch:Torch", GROUP),
        EntryPoint("JobSet", "ktrain.plugins.jobset:JobSet", GROUP),
        EntryPoint("Again", "ktrain.plugins.jobset:JobSet", GROUP),
    ]
    registry = Registry.load(entry_points)

    assert registry.names == ("JobSet", "PlainML", "Torch")
    assert [failure.name for failure in registry.failures] == ["JobSet"]


class Watching:
    """Watches JobSets, or fails to say what it watches."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        self.name = name
        self.error = error

    def watches(self):
        if self.error:
            raise self.error
        return (Watch(JOBSETS, owned=True),)


def test_a_plugin_that_fails_to_say_what_it_watches_is_left_out_and_reported():
    registry = Registry([Watching("a", RuntimeError("boom")), Watching("b"), plugin("c")])

    assert registry.names == ("b", "c")
    assert [watch.resource for watch in registry.watches] == [JOBSETS]
    (failure,) = registry.failures
    assert (failure.name, failure.reason) == ("a", "boom")
    assert failure.origin.endswith(":Watching")


def test_a_kind_left_out_is_watched_no_more_and_its_plugin_stays():
    registry = Registry([Watching("a")])
    without = registry.without_kinds({JOBSETS})

    assert (without.names, without.watches) == (("a",), ())
    assert registry.watches != ()


def version(name):
    return Resource("acme.io", name, "Thing", "things", namespaced=True, type=Object)


@pytest.mark.parametrize(
    ("unserved", "watched"),
    [(set(), "v2"), ({"v2"}, "v1"), ({"v1"}, "v2"), ({"v1", "v2"}, None)],
)
def test_of_the_versions_of_a_kind_the_first_that_is_served_is_watched(unserved, watched):
    class Things:
        name = "things"

        def watches(self):
            return (Watch(version("v2"), owned=True, otherwise=Watch(version("v1"), owned=True)),)

    registry = Registry([Things()]).without_kinds({version(name) for name in unserved})

    assert [watch.resource.version for watch in registry.watches] == ([watched] if watched else [])


def test_one_who_watches_a_kind_by_another_selector_is_left_out():
    kind = Resource("example.com", "v1", "Thing", "things", namespaced=True, type=Object)

    def watching(plugin_name, selector):
        class Watching:
            name = plugin_name

            def watches(self):
                return (Watch(kind, label_selector=selector),)

        return Watching()

    registry = Registry([watching("A", "x"), watching("B", "x"), watching("C", "")])

    assert registry.names == ("A", "B")
    (failure,) = registry.failures
    assert (failure.name, "another plugin by 'x'" in failure.reason) == ("C", True)


def test_nobodys_selector_leaves_a_built_in_plugin_out():
    class Narrow:
        name = "A"

        def watches(self):
            return (Watch(JOB_SET_STATES, label_selector="mine"),)

    registry = Registry([Narrow(), JobSet()])

    assert (registry.names, [failure.name for failure in registry.failures]) == (("JobSet",), ["A"])
