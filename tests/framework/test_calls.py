"""What is around one call: retries, the span, counting, warnings; and what goes over the wire for each option."""

import asyncio
import gc
import re
import weakref

import msgspec
import pytest

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key, Object, Resource
from ktrain.framework.client.client import ATTEMPT_TIMEOUT_S
from ktrain.framework.client.subresources import bind, evict, read_log, read_scale, request_token, scale
from ktrain.framework.errors import (
    FrameworkError,
    ServerError,
    TooManyRequests,
    TransportError,
)
from ktrain.framework.writes import recording

from .calling import BODY, STORED, call, refusal

KEY = Key("ns", "a")
SUCCESS = {"kind": "Status", "metadata": {}, "status": "Success", "details": {"uid": "u"}}


# Retries


def test_a_read_that_lost_its_connection_is_sent_again_with_growing_jittered_pauses(script):
    script.answers += [TransportError("reset"), TransportError("reset"), TransportError("refused"), (200, STORED)]

    found, took = call(script, lambda c: c.get(CONFIG_MAPS, "a", "ns"))

    assert found.metadata.uid == "u"
    assert 0.7 <= took <= 1.05


def test_reads_of_a_server_that_is_away_end_within_the_budget(script):
    script.answers += [TransportError(f"refused {number}") for number in range(10)]

    async def use(client):
        with pytest.raises(TransportError):
            await client.get(CONFIG_MAPS, "a", "ns")

    _, took = call(script, use)
    assert 1 < took <= 2.5


@pytest.mark.parametrize("write", [
    lambda c: c.create(CONFIG_MAPS, BODY),
    lambda c: c.update(CONFIG_MAPS, BODY),
    lambda c: c.apply(CONFIG_MAPS, BODY),
    lambda c: c.patch(CONFIG_MAPS, KEY, {}),
    lambda c: c.delete(CONFIG_MAPS, KEY),
    lambda c: c.delete_collection(CONFIG_MAPS, "ns"),
])  # fmt: skip
def test_a_write_whose_connection_was_lost_is_never_sent_again_as_it_may_have_happened(script, write):
    script.answers += [TransportError("reset"), (200, STORED)]

    async def use(client):
        with pytest.raises(TransportError):
            await write(client)

    call(script, use)
    assert len(script.calls) == 1


def test_a_read_that_took_its_whole_time_is_not_sent_again():
    class Silent:
        sent = 0

        async def request(self, method, path, *, timeout_s, **options):
            self.sent += 1
            await asyncio.sleep(timeout_s)
            raise TransportError("no answer")

    async def use(client):
        with pytest.raises(TransportError):
            await client.get(CONFIG_MAPS, "a", "ns")

    silent = Silent()
    assert call(silent, use)[1] == ATTEMPT_TIMEOUT_S
    assert silent.sent == 1


def test_the_last_error_has_the_earlier_ones_at_the_end_of_its_chain(script):
    lost = TransportError("reset")
    lost.__cause__ = OSError("104")
    script.answers += [refusal(503, {"retry-after": "1"}), lost, refusal(500)]

    async def use(client):
        with pytest.raises(ServerError) as caught:
            await client.get(CONFIG_MAPS, "a", "ns")
        chain = [caught.value]
        while chain[-1].__cause__ is not None:
            chain.append(chain[-1].__cause__)
        return [re.sub(".*: ", "", str(error)) for error in chain]

    assert call(script, use)[0] == ["no 500 (500)", "reset", "104", "no 503 (503)"]


def test_one_and_the_same_error_again_and_again_makes_no_ring(script):
    one, other = TransportError("one"), TransportError("other")
    script.answers += [one, one, other, one, other, one]

    async def use(client):
        with pytest.raises(TransportError) as caught:
            await client.get(CONFIG_MAPS, "a", "ns")
        seen = []
        error = caught.value
        while error is not None:
            assert error not in seen
            seen.append(error)
            error = error.__cause__

    call(script, use)


def test_a_throttled_object_costs_its_own_caller_the_budget_and_no_more(script):
    script.answers += [refusal(429, {"retry-after": "1"}) for _ in range(10)]

    async def use(client):
        with pytest.raises(TooManyRequests):
            await client.apply(CONFIG_MAPS, BODY)

    _, took = call(script, use)
    assert 1 <= took <= 2.5


def test_an_eviction_that_a_budget_forbids_is_no_sign_of_a_busy_server(script):
    script.answers.append(refusal(429, details={"causes": [{"reason": "DisruptionBudget"}]}))

    async def use(client):
        with pytest.raises(TooManyRequests):
            await evict(client, KEY)

    assert call(script, use)[1] == 0
    assert len(script.calls) == 1


def test_a_call_that_fails_leaves_nothing_for_the_garbage_collector(script):
    async def use(client):
        dead = []
        script.answers += [refusal(409), refusal(429), refusal(404), refusal(500)]
        for _ in range(3):
            try:
                await client.apply(CONFIG_MAPS, BODY)
            except FrameworkError as error:
                dead.append(weakref.ref(error))
        return [each() for each in dead]

    gc.disable()
    try:
        assert call(script, use)[0] == [None] * 3
    finally:
        gc.enable()


# Options on the wire


def test_options_of_a_write_go_before_those_of_the_client(script):
    script.answers += [(200, STORED)] * 3

    async def use(client):
        fixed = client.with_options(dry_run=True, field_manager="other", field_validation="Strict")
        await fixed.create(CONFIG_MAPS, BODY)
        await fixed.patch(CONFIG_MAPS, KEY, {}, dry_run=False, field_manager=None, field_validation="Warn")
        await client.update(CONFIG_MAPS, BODY)
        return fixed.field_manager, client.field_manager

    assert call(script, use)[0] == ("other", "me")
    assert [each.query for each in script.calls] == [
        {"fieldManager": "other", "dryRun": "All", "fieldValidation": "Strict"},
        {"fieldManager": "other", "fieldValidation": "Warn"},
        {"fieldManager": "me"},
    ]


def test_a_collection_is_deleted_with_selectors_and_options(script):
    script.answers += [(200, SUCCESS)]

    async def use(client):
        with recording() as writes:
            await client.delete_collection(
                CONFIG_MAPS, "ns", label_selector="a=b", field_selector="x=y", propagation="Orphan", dry_run=True
            )
        return writes

    assert call(script, use)[0] == []
    (sent,) = script.calls
    assert (sent.method, sent.path) == ("DELETE", "/api/v1/namespaces/ns/configmaps")
    assert sent.query == {"labelSelector": "a=b", "fieldSelector": "x=y"}
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert msgspec.json.decode(sent.body) == {**options, "propagationPolicy": "Orphan", "dryRun": ["All"]}


def test_names_are_quoted_so_that_no_name_is_a_path(script):
    roles = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False, type=Object)
    script.answers += [(200, STORED)] * 2

    async def use(client):
        await client.get(roles, "system:controller:a b?c=d&e#f/../g%2F")
        await client.get(roles, "ü")

    call(script, use)

    paths = [each.path.rpartition("/clusterroles/")[2] for each in script.calls]
    assert paths == ["system%3Acontroller%3Aa%20b%3Fc%3Dd%26e%23f%2F..%2Fg%252F", "%C3%BC"]


# What is recorded


@pytest.mark.parametrize(
    ("answer", "options", "version"),
    [
        (SUCCESS, {}, 0),
        (STORED, {}, 0),
        ({"metadata": {**STORED["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["f"]}}, {}, 7),
        ({"metadata": {**STORED["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}, {}, 0),
        (
            {
                "metadata": {
                    **STORED["metadata"],
                    "deletionTimestamp": "2030-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": 30,
                }
            },
            {},
            7,
        ),
        (
            {
                "metadata": {
                    **STORED["metadata"],
                    "deletionTimestamp": "2030-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": 30,
                }
            },
            {"grace_period_s": 0},
            0,
        ),
    ],
)
def test_a_deletion_is_recorded_as_such_only_if_the_object_is_gone(script, answer, options, version):
    script.answers.append((200, answer))

    async def use(client):
        with recording() as writes:
            await client.delete(CONFIG_MAPS, KEY, **options)
        return [(write.key, write.uid, write.version) for write in writes]

    assert call(script, use)[0] == [(KEY, "u", version)]


def test_nothing_is_recorded_of_dry_runs_and_of_answers_that_are_not_about_the_object(script):
    unversioned = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}
    script.answers += [(200, STORED), (200, STORED), (200, SUCCESS), (200, SUCCESS), (200, unversioned)]

    async def use(client):
        with recording() as writes:
            await client.create(CONFIG_MAPS, BODY, dry_run=True)
            await client.delete(CONFIG_MAPS, KEY, dry_run=True)
            await bind(client, KEY, "node")
            await evict(client, KEY, uid="u")
            await client.create(CONFIG_MAPS, BODY)
        return writes

    assert call(script, use)[0] == []


# Subresources


def test_subresources_with_a_kind_of_their_own_have_their_own_types(script):
    sized = {"kind": "Scale", "metadata": STORED["metadata"], "spec": {"replicas": 2}, "status": {"selector": "a=b"}}
    token = {"kind": "TokenRequest", "metadata": {}, "status": {"token": "secret", "expirationTimestamp": None}}
    script.answers += [(200, sized), (200, sized), (201, token), (201, SUCCESS)]
    deployments = Resource("apps", "v1", "Deployment", "deployments", namespaced=True, type=Object)

    async def use(client):
        size = await read_scale(client, deployments, KEY)
        with recording() as writes:
            await scale(client, deployments, KEY, 2)
        given = await request_token(client, KEY, audiences=["them"], lasts_s=600)
        await evict(client, KEY, uid="u", grace_period_s=5)
        return size, writes, given

    (size, writes, given), _ = call(script, use)
    assert (size.kind, size.spec.replicas, size.status.selector) == ("Scale", 2, "a=b")
    assert [(write.plural, write.uid, write.version) for write in writes] == [("deployments", "u", 7)]
    assert (given.status.token, "secret" in repr(given)) == ("secret", False)
    assert [each.path.rpartition("ns/")[2] for each in script.calls] == [
        "deployments/a/scale",
        "deployments/a/scale",
        "serviceaccounts/a/token",
        "pods/a/eviction",
    ]
    assert msgspec.json.decode(script.calls[2].body)["spec"] == {"audiences": ["them"], "expirationSeconds": 600}
    assert msgspec.json.decode(script.calls[3].body)["deleteOptions"] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 5,
    }


def test_a_log_comes_line_by_line_and_says_why_if_there_is_none(script):
    script.streams += [[b"one", b"two"], (400, {"code": 400, "message": "container is waiting"})]

    async def use(client):
        lines = [line async for line in read_log(client, KEY, container="node", follow=True, tail_lines=0)]
        with pytest.raises(Exception, match="container is waiting"):
            await anext(read_log(client, KEY))
        return lines

    assert call(script, use)[0] == [b"one", b"two"]
    assert script.calls[0].path == "/api/v1/namespaces/ns/pods/a/log"
    assert script.calls[0].query == {"container": "node", "follow": "true", "tailLines": "0"}
