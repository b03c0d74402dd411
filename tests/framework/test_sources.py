import pytest
from structlog.testing import capture_logs

from ktrain.api.core import CONFIG_MAPS, ConfigMap, Pod
from ktrain.api.meta import Key, ObjectMeta, OwnerReference, Resource
from ktrain.framework.controller.predicates import GENERATION_CHANGED, Matching
from ktrain.framework.controller.sources import Channel, EnqueueHandler, Sink, own_key, owner_key

A, B = Key("default", "a"), Key("default", "b")


class Got:
    """What a source delivered."""

    def __init__(self):
        self.keys = []
        self.lost = 0
        self.sink = Sink("test", self.enqueue, self.fail)

    def enqueue(self, key, reason, /, *, priority=0, after_s=0.0):
        self.keys.append((key, str(reason), priority))

    def fail(self):
        self.lost += 1


@pytest.fixture
def got():
    return Got()


def config_map(name="a", version="1", **meta):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", resource_version=version, **meta))


def handler(got, *, mapping=own_key, predicate=None):
    return EnqueueHandler("ConfigMap", mapping, predicate, got.sink)


def test_news_come_before_what_was_there_at_the_start_and_before_replays(got):
    source = handler(got)
    source.on_add(config_map(), initial=True)
    source.on_add(config_map(), initial=False)
    source.on_update(config_map(), config_map())
    source.on_update(config_map(), config_map(version="2"))
    source.on_delete(config_map())

    assert got.keys == [
        (A, "ConfigMap default/a existed", -100),
        (A, "ConfigMap default/a added", 0),
        (A, "ConfigMap default/a updated", -100),
        (A, "ConfigMap default/a updated", 0),
        (A, "ConfigMap default/a deleted", 0),
    ]


def test_an_update_maps_both_states_and_each_key_comes_once(got):
    to = {"1": [A, B], "2": [B, A, Key("default", "c")]}
    source = handler(got, mapping=lambda obj: to[obj.metadata.resource_version])
    source.on_update(config_map(), config_map(version="2"))

    assert [key.name for key, _, _ in got.keys] == ["b", "a", "c"]


def test_a_state_that_the_predicate_drops_is_not_mapped(got):
    """A child that leaves a selector wakes its old owner, not one that it names while it does not count."""
    source = handler(
        got,
        mapping=lambda obj: [Key("default", obj.metadata.labels["owner"])],
        predicate=Matching(lambda obj: "team" in obj.metadata.labels),
    )
    inside = config_map(labels={"team": "x", "owner": "a"})
    outside = config_map(version="2", labels={"owner": "b"})
    source.on_update(inside, outside)
    source.on_update(outside, inside)
    source.on_delete(outside)

    assert [key for key, _, _ in got.keys] == [A, A]


def test_a_filtered_event_wakes_nobody(got):
    source = handler(got, predicate=GENERATION_CHANGED)
    source.on_update(config_map(generation=1), config_map(version="2", generation=1))

    assert got.keys == []


@pytest.mark.parametrize("broken", ["predicate", "mapping"])
def test_an_error_costs_its_event_only_and_is_logged_under_the_name_of_the_controller(got, broken):
    def fail(obj):
        if obj.metadata.name == "bad":
            raise RuntimeError("no")
        return [obj.metadata.key]

    source = handler(got, **({"mapping": fail} if broken == "mapping" else {"predicate": Matching(fail)}))
    with capture_logs() as logs:
        source.on_add(config_map("bad"), initial=False)
        source.on_add(config_map("a"), initial=False)

    assert [key for key, _, _ in got.keys] == [A]
    assert got.lost == 1
    (line,) = logs
    assert line["event"] == "event.lost"
    assert line["controller"] == "test"
    assert line["object"] == "default/bad"


def owned(*, controller=True, kind="ConfigMap", version="v1"):
    ref = OwnerReference(api_version=version, kind=kind, name="owner", uid="u", controller=controller)
    return Pod(metadata=ObjectMeta(name="p", namespace="default", owner_references=(ref,)))


def test_owners_are_found_by_group_and_kind_whatever_the_version():
    find = owner_key(CONFIG_MAPS)

    assert list(find(owned())) == [Key("default", "owner")]
    assert list(find(owned(version="v9"))) == [Key("default", "owner")]
    assert list(find(owned(version="other/v1"))) == []
    assert list(find(owned(kind="Secret"))) == []


def test_owners_that_do_not_control_count_only_if_every_owner_does():
    assert list(owner_key(CONFIG_MAPS)(owned(controller=False))) == []
    assert list(owner_key(CONFIG_MAPS, every_owner=True)(owned(controller=False))) == [Key("default", "owner")]


def test_the_key_of_a_cluster_scoped_owner_has_no_namespace():
    nodes = Resource("", "v1", "ConfigMap", "configmaps", namespaced=False, type=ConfigMap)

    assert list(owner_key(nodes)(owned())) == [Key("", "owner")]


def test_a_channel_tells_every_listener_at_once_and_one_that_fails_stops_no_other(got):
    channel, other = Channel("timer"), Got()

    def fail(event):
        raise RuntimeError("no")

    channel.listen(fail, got.sink)
    channel.listen(lambda names: [Key("default", name) for name in names], other.sink)
    with capture_logs() as logs:
        channel.send(["a", "b", "a"])

    assert other.keys == [(A, "timer sent", 0), (B, "timer sent", 0)]
    assert (got.keys, got.lost) == ([], 1)
    assert [(line["event"], line["channel"]) for line in logs] == [("event.lost", "timer")]
