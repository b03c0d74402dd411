"""What a plugin may say that it watches."""

import pytest

from ktrain.api.core import CONFIG_MAPS, PODS, SECRETS
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.controller.predicates import Changed
from ktrain.pipeline import Index, Mapped, Owned, Registry, Suspended, Watch


def names(obj):
    return (obj.metadata.name,)


def no_keys(*_):
    return ()


def plugin(*watches):
    class Plugin:
        name = "acme"

        def watches(self):
            return [watch() for watch in watches]

    return Plugin()


@pytest.mark.parametrize(
    ("older", "today"),
    [
        (Watch(PODS, owned=True), Watch(PODS, Owned())),
        (Watch(PODS, suspended=True), Watch(PODS, Suspended())),
        (Watch(PODS, keys=no_keys), Watch(PODS, keys=no_keys)),
    ],
)
def test_the_older_words_mean_the_same(older, today):
    assert older == today
    assert hash(older) == hash(today)


def test_a_function_of_the_object_alone_is_a_mapping():
    watch = Watch(PODS, keys=lambda obj: [obj])

    assert isinstance(watch.concerns, Mapped)
    assert watch.concerns.keys("the object", "the caches") == ["the object"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Watch(PODS, owned=True, suspended=True), "a Watch of pods is Owned, Suspended at once"),
        (lambda: Watch(PODS, Mapped(no_keys), keys=no_keys), "a Watch of pods is Mapped, Mapped at once"),
        (lambda: Watch(PODS, Owned), "where Owned(), Suspended() or Mapped(function) is expected"),
        (lambda: Watch(PODS, no_keys), "where Owned(), Suspended() or Mapped(function) is expected"),
        (lambda: Watch(PODS, predicate=no_keys), "a predicate of ktrain.framework.controller.predicates"),
        (lambda: Watch(PODS, indexes=(names,)), "which is no Index"),
        (lambda: Watch(PODS, indexes=(Index(SECRETS, names),)), "an index of secrets, which it does not watch"),
    ],
)
def test_a_watch_that_contradicts_itself_costs_its_plugin_and_says_why(make, says):
    registry = Registry([plugin(make)])

    assert registry.plugins == ()
    assert says in registry.failures[0].reason


def test_indexes_are_of_what_is_watched_and_of_train_jobs_and_each_is_there_once():
    pods, jobs = Index(PODS, names), Index(TRAIN_JOBS, names)
    registry = Registry(
        [plugin(lambda: Watch(PODS, indexes=(pods, jobs)), lambda: Watch(CONFIG_MAPS, Owned(), indexes=(jobs,)))]
    )

    assert registry.indexes == (pods, jobs)
    assert registry.without_kinds({PODS}).indexes == (pods, jobs), "look-ups in them find nothing, and do not fail"


def test_equal_watches_are_one():
    predicate = Changed(names)

    assert len({Watch(PODS, Mapped(no_keys), predicate=predicate) for _ in range(2)}) == 1
