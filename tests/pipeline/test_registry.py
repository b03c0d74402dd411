"""Finding plugins and putting them in order."""

import sys
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Object, Resource
from ktrain.pipeline import Registry, RegistryError, Watch
from ktrain.pipeline.loading import GROUP, Choice
from ktrain.pipeline.ordering import Wishes, ordered
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


def test_a_circle_of_wishes_costs_those_that_make_it_and_is_named():
    registry = Registry(
        [plugin("a", after=["c"]), plugin("b", after=["a"]), plugin("c", after=["b"]), plugin("d", after=["a"])]
    )

    assert registry.names == ("d",)
    text = "plugins want to run before each other, in a circle: a -> c -> b -> a"
    assert {failure.name: failure.reason for failure in registry.failures} == dict.fromkeys("abc", text)


def test_a_built_in_plugin_stays_whatever_circle_others_make_with_it():
    registry = Registry([plugin("a", before=["JobSet"], after=["JobSet"]), JobSet(), plugin("b")])

    assert registry.names == ("JobSet", "b")
    (failure,) = registry.failures
    assert (failure.name, failure.reason.endswith("in a circle: JobSet -> a -> JobSet")) == ("a", True)


WISHES = st.lists(st.sampled_from("abcdef"), max_size=2).map(tuple)


@given(st.dictionaries(st.sampled_from("abcdef"), st.builds(Wishes, WISHES, WISHES)), st.sets(st.sampled_from("ab")))
def test_who_is_in_no_circle_is_never_left_out(wanted, spared):
    try:
        order = ordered(wanted, spared)
    except RegistryError:
        return  # a circle of spared ones only
    places = {name: place for place, name in enumerate(order.names)}
    assert places.keys() | order.circles.keys() == wanted.keys()
    assert not places.keys() & order.circles.keys()
    assert not spared & order.circles.keys()
    for name, place in places.items():
        assert all(place < places[other] for other in wanted[name].before if other in places)
        assert all(place > places[other] for other in wanted[name].after if other in places)
    for name, text in order.circles.items():
        assert f" {name} ->" in text


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

class Short:
    name = "Short"

    def validate(self, info, job, old):
        return None

class Keyed:
    name = "Keyed"

    def build(self, info, *, ctx):
        return ()

class Typo:
    name = "Typo"
    before = ("Jobset", "Nobody")
    schema = {}

    def enforce_mlpolicy(self, info, ctx):
        pass

    def enforce_pod_spec(self, *args):
        pass

class Twin:
    name = "Twin"

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
    "Short": "its `validate` takes (info, job, old), and is called with (info, job, old, ctx)",
    "Keyed": "its `build` takes (info, *, ctx), and is called with (info, ctx)",
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
    lines = [f"{name} = third_party_plugins:{name.removeprefix('AA')}" for name in ("Third", "Typo", *UNUSABLE)]
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
def test_a_plugin_is_reported_with_the_package_that_it_is_of():
    registry = Registry.load()

    assert registry.origins["Third"] == "third_party_plugins:Third of third-party-plugins 1.0"
    (failure,) = (one for one in registry.failures if one.name == "AATaker")
    assert failure.origin == "third_party_plugins:Taker of third-party-plugins 1.0"
    assert "too: ktrain.plugins.jobset:JobSet of ktrain-operator " in failure.reason


@pytest.mark.usefixtures("distribution")
def test_what_is_probably_misspelt_is_told():
    assert Registry.load().remarks == {
        "Typo": (
            "its `enforce_mlpolicy` is never used; `enforce_ml_policy` would be",
            "its `schema` is never used; `schemas` would be",
            "it wants to run before 'Jobset', which is not installed; did you mean 'JobSet'?",
            "it wants to run before 'Nobody', which is not installed",
        )
    }


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize(
    ("entry_points", "used"),
    [
        ({"Twin": "Twin", "Other": "Twin"}, "Twin"),
        ({"Aaa": "Twin", "Bbb": "Twin"}, None),
        ({"Aaa": "Twin"}, "Aaa"),
    ],
)
def test_of_two_plugins_with_one_name_the_one_whose_entry_point_has_it_is_used(entry_points, used):
    registry = Registry.load([EntryPoint(n, f"third_party_plugins:{v}", GROUP) for n, v in entry_points.items()])

    assert registry.names == (("Twin",) if used else ())
    assert {failure.name for failure in registry.failures} == entry_points.keys() - {used}
    assert all("uninstall one of them" in failure.reason for failure in registry.failures)


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(), ("PlainML", "Third", "Typo")),
        (Choice(disabled=("Third", "PlainML")), ("Typo",)),
        (Choice(allowed=("Third",)), ("PlainML", "Third")),
        (Choice(allowed=()), ("PlainML",)),
        (Choice(allowed=("Third",), disabled=("Third",)), ("PlainML",)),
    ],
)
def test_an_administrator_says_which_plugins_are_used(choice, names):
    registry = Registry.load(choice=choice)

    assert tuple(name for name in registry.names if name in ("PlainML", "Third", "Typo")) == names


@pytest.mark.usefixtures("distribution")
def test_what_is_not_wanted_is_not_imported():
    Registry.load([EntryPoint("Third", "third_party_plugins:Third", GROUP)], Choice(disabled=("Third",)))

    assert "third_party_plugins" not in sys.modules


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
    assert [failure.name for failure in registry.failures] == ["Again"]


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
