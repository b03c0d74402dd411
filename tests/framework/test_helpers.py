"""What reconcilers use around their writes; what needs a server is in tests/controlplane."""

import asyncio

import pytest

from ktrain.api.core import CONFIG_MAPS, NAMESPACES
from ktrain.api.meta import Object, ObjectMeta
from ktrain.framework.errors import AlreadyOwned, ApplyConflict, Conflict, Status
from ktrain.framework.helpers import merge_from, retry_on_conflict, set_controller_reference, set_owner_reference
from ktrain.testing.time import simulate

OWNER = Object(metadata=ObjectMeta(name="owner", namespace="ns", uid="1"))


def child(namespace="ns", *references):
    return {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace, "ownerReferences": [*references]}}


def failing(error, times):
    """A write that fails so often."""
    left = [error] * times

    async def attempt():
        if left:
            raise left.pop()
        return "done"

    return attempt


@pytest.mark.parametrize(("times", "factor", "most_s"), [(0, 1, 0), (4, 1, 0.044), (3, 5, 0.35)])
def test_a_conflict_is_tried_again_after_short_jittered_pauses(times, factor, most_s):
    async def main(env):
        done = await retry_on_conflict(env, failing(Conflict(Status(code=409)), times), factor=factor)
        return done, env.clock.monotonic()

    done, took = simulate(main)
    assert done == "done"
    assert most_s / 1.1 <= took <= most_s


@pytest.mark.parametrize(("error", "attempts"), [(Conflict, 5), (ApplyConflict, 1), (RuntimeError, 1)])
def test_what_does_not_pass_is_raised(error, attempts):
    seen = []

    async def attempt():
        seen.append(1)
        raise error(Status(code=409))

    async def main(env):
        with pytest.raises(error):
            await retry_on_conflict(env, attempt)

    simulate(main)
    assert len(seen) == attempts


def test_the_controller_of_an_object_is_one_and_set_once():
    body = child()

    for _ in range(2):
        set_controller_reference(body, OWNER, CONFIG_MAPS)

    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": "1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    successor = Object(metadata=ObjectMeta(name="owner", namespace="ns", uid="2"))
    with pytest.raises(AlreadyOwned, match=r"ConfigMap ns/c is controlled by ConfigMap owner \(uid 1\)"):
        set_controller_reference(body, successor, CONFIG_MAPS)


def test_further_owners_do_not_take_control_and_do_not_lose_it():
    body = child()
    second = Object(metadata=ObjectMeta(name="second", namespace="ns", uid="2"))

    set_controller_reference(body, OWNER, CONFIG_MAPS)
    set_owner_reference(body, second, CONFIG_MAPS)
    set_owner_reference(body, OWNER, CONFIG_MAPS)

    found = [(each["uid"], each["controller"]) for each in body["metadata"]["ownerReferences"]]
    assert found == [("1", True), ("2", False)]


@pytest.mark.parametrize(
    ("namespace", "owner", "message"),
    [
        ("other", OWNER, "another namespace"),
        ("", OWNER, "is in no namespace"),
        ("ns", Object(metadata=ObjectMeta(name="owner", namespace="ns")), "has no uid"),
    ],
)
def test_an_owner_that_the_garbage_collector_would_not_find_is_refused(namespace, owner, message):
    body = child(namespace)

    for refer in (set_controller_reference, set_owner_reference):
        with pytest.raises(ValueError, match=message):
            refer(body, owner, CONFIG_MAPS)

    assert body == child(namespace)


def test_a_cluster_scoped_object_may_own_anything():
    owner = Object(metadata=ObjectMeta(name="n", uid="1"))
    for namespace in ("ns", ""):
        body = child(namespace)
        set_controller_reference(body, owner, NAMESPACES)
        assert body["metadata"]["ownerReferences"][0]["name"] == "n"


def test_a_merge_patch_has_what_changed_and_the_version_only_if_it_is_to_guard():
    old = {"metadata": {"resourceVersion": "7", "labels": {"a": "1", "b": "1"}}, "spec": {"list": [1], "kept": True}}
    new = {"metadata": {"resourceVersion": "7", "labels": {"a": "2"}}, "spec": {"list": [1, 2], "kept": True}}
    patch = {"metadata": {"labels": {"a": "2", "b": None}}, "spec": {"list": [1, 2]}}

    assert merge_from(old, new) == patch
    assert merge_from(old, new, lock=True) == patch | {"metadata": {**patch["metadata"], "resourceVersion": "7"}}
    assert merge_from(old, old, lock=True) == {}
    with pytest.raises(ValueError, match="resourceVersion"):
        merge_from({}, new, lock=True)


def test_a_retry_can_be_cancelled():
    async def main(env):
        async with asyncio.timeout(1):
            await retry_on_conflict(env, failing(Conflict(Status(code=409)), 99), steps=100, delay_s=0.5)

    with pytest.raises(TimeoutError):
        simulate(main)
