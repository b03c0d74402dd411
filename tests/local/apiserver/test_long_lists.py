"""Lists as long as a client likes: each item is compared with what could be in its way only, and answers stay short."""

from __future__ import annotations

import time

from ktrain.local.apiserver.builtins.pods.validation.resources import validate_resources
from ktrain.local.apiserver.builtins.pods.warnings import warn_of_pod
from ktrain.local.apiserver.metadata import dedup_owners

C = {"name": "c", "image": "x"}


def warned(**spec):
    return warn_of_pod({"metadata": {"name": "p"}, "spec": {"containers": [C], **spec}})


def test_many_ports_are_compared_with_those_that_could_be_in_their_way_only():
    ports = [{"containerPort": n, "protocol": "TCP"} for n in range(1, 20_001)]
    same = [{"containerPort": 1, "protocol": "TCP", "hostPort": n} for n in range(1, 20_001)]
    many = [{**C, "name": f"c{n}", "ports": [port]} for n, port in enumerate(ports)]
    begun = time.monotonic()

    for containers in ([{**C, "ports": ports}], [{**C, "ports": same}], many):
        assert warned(containers=containers) == []
    assert len(warned(containers=[{**C, "ports": ports[:1] * 20_000}])) == 1000
    assert time.monotonic() - begun < 5


def test_ports_that_conflict_are_named_in_their_order():
    places = [{}, {"hostPort": 1, "hostIP": "1.1.1.1"}, {"hostPort": 1}, {"hostPort": 1, "hostIP": "1.1.1.2"}, {}]
    found = warned(containers=[{**C, "ports": [{"containerPort": 8, **place} for place in places]}])

    kinds = [(text.split()[0][-3], text.split()[1], text[-2]) for text in found]
    assert kinds == [
        ("1", "overlapping", "0"),
        ("2", "overlapping", "0"),
        ("2", "dangerously", "1"),
        ("3", "overlapping", "0"),
        ("3", "dangerously", "2"),
        ("4", "duplicate", "0"),
        ("4", "overlapping", "1"),
        ("4", "overlapping", "2"),
        ("4", "overlapping", "3"),
    ]


def test_paths_of_a_volume_are_compared_with_those_above_and_below_only():
    def volume(*paths):
        items = [{"key": "k", "path": path} for path in paths]
        return {"name": "v", "projected": {"sources": [{"secret": {"name": "s", "items": items}}]}}

    begun = time.monotonic()
    assert warned(volumes=[volume(*(f"a/{n}" for n in range(20_000)))]) == []
    assert len(warned(volumes=[volume(*["a"] * 20_000)])) == 1000
    assert time.monotonic() - begun < 5

    found = warned(volumes=[volume("a/b", "a-b", "a/", "a/b/c", "ab", "a/b")])
    pairs = [tuple(text.split('"')[index] for index in (3, 7)) for text in found]
    assert pairs == [("a", "a/b"), ("a/b/c", "a/b"), ("a/b/c", "a"), ("a/b", "a/b"), ("a/b", "a"), ("a/b", "a/b/c")]


async def test_of_very_many_warnings_some_are_told(api):
    ports = [{"containerPort": 1}] * 200
    answer = await api.send(
        "POST", api.path("pods"), {"metadata": {"name": "p"}, "spec": {"containers": [{**C, "ports": ports}]}}
    )

    assert answer.status == 201
    told = answer.warnings.split(", 299 - ")
    assert (len(told), told[-1]) == (100, '"at least 901 more warnings are left out"')


def test_many_owners_are_compared_at_once():
    owners = [{"uid": str(n % 10_000), "name": "o"} for n in range(20_000)]
    metadata = {"ownerReferences": [dict(owner) for owner in owners]}
    begun = time.monotonic()

    assert "duplicate UID(s) observed: 0, 1, 2" in dedup_owners(metadata)
    assert metadata["ownerReferences"] == owners[:10_000]
    assert time.monotonic() - begun < 5


def test_many_unknown_claims_are_answered_with_some_of_those_there_are():
    claims = [f"claim-{n:05}" for n in range(20_000)]
    used = {"claims": [{"name": f"other-{n}"} for n in range(20_000)]}
    found = [str(cause.message) for cause in validate_resources(used, "resources", claims)]

    assert len(found) == 20_000
    assert max(map(len, found)) < 2_000
    assert found[0].endswith("claim-00098, claim-00099, ...")
