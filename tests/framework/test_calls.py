"""What is around one call: retries, the span, counting, warnings; and what goes over the wire for each option."""

import asyncio
import gc
import re
import weakref
from contextlib import aclosing, contextmanager

import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS, PODS
from ktrain.api.meta import Key, Object, Resource
from ktrain.framework.client.client import ATTEMPT_TIMEOUT_S, Client
from ktrain.framework.client.subresources import bind, evict, read_log, read_scale, request_token, scale
from ktrain.framework.client.transport import Response
from ktrain.framework.client.warnings import MAX_TEXTS, WarningLog
from ktrain.framework.errors import (
    ApiError,
    Conflict,
    DecodeError,
    FrameworkError,
    Gone,
    ServerError,
    TooManyRequests,
    TransportError,
)
from ktrain.framework.metrics import Metrics
from ktrain.framework.telemetry.tracing import Tracing
from ktrain.framework.writes import recording
from ktrain.testing.time import simulate

KEY = Key("ns", "a")
STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}
BODY = {"metadata": {"name": "a", "namespace": "ns"}}
SUCCESS = {"kind": "Status", "metadata": {}, "status": "Success", "details": {"uid": "u"}}


def refusal(code, headers=None, **status):
    return code, {"kind": "Status", "code": code, "message": f"no {code}", **status}, headers or {}


def call(script, use, **options):
    """Run `use(client)` in virtual time; return its result and how long it took."""

    async def main(env):
        client = Client(script, env, field_manager="me", **options)
        return await use(client), env.clock.monotonic()

    return simulate(main)


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


# What is seen of a call


def samples(registry):
    return {
        (name, *labels.items()): value
        for family in registry.collect()
        for name, labels, value, *_ in family.samples
        if value and not name.endswith(("_created", "_bucket", "_sum"))
    }


def test_attempts_and_retries_are_counted_by_code_method_and_host(script):
    registry = CollectorRegistry()
    script.answers += [refusal(429), TransportError("reset"), (200, STORED), TransportError("reset")]

    async def use(client):
        await client.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(TransportError):
            await client.create(CONFIG_MAPS, BODY)

    call(script, use, metrics=Metrics(registry))

    def count(name, code, verb, method):
        return (name, ("code", code), (verb, method), ("host", "in-process"))

    assert samples(registry) == {
        count("rest_client_requests_total", "429", "method", "GET"): 1,
        count("rest_client_requests_total", "<error>", "method", "GET"): 1,
        count("rest_client_requests_total", "200", "method", "GET"): 1,
        count("rest_client_requests_total", "<error>", "method", "POST"): 1,
        count("rest_client_request_retries_total", "429", "verb", "GET"): 1,
        count("rest_client_request_retries_total", "<error>", "verb", "GET"): 1,
    }


def test_durations_and_sizes_are_measured_only_if_that_is_wanted(script):
    registry = CollectorRegistry()
    script.answers.append((200, STORED))

    call(script, lambda c: c.create(CONFIG_MAPS, BODY), metrics=Metrics(registry), detailed_metrics=True)

    labels = (("verb", "POST"), ("host", "in-process"))
    names = ("duration_seconds", "size_bytes")
    found = samples(registry)
    assert [found[f"rest_client_request_{name}_count", *labels] for name in names] == [1, 1]
    assert found["rest_client_response_size_bytes_count", *labels] == 1
    size = registry.get_sample_value("rest_client_request_size_bytes_sum", dict(labels))
    assert size == len(script.calls[0].body)


class Spans(Tracing):
    """Writes down what is said of each call."""

    trace_id = ""

    def __init__(self):
        self.seen = []

    @contextmanager
    def call(self, method, path, *, server=""):
        self.seen.append((method, path, server))
        try:
            yield self
        except ApiError as error:
            self.seen.append(error.code)
            raise

    def set(self, name, value):
        self.seen.append((name, value))

    def retried(self, code):
        self.seen.append(("again after", code))

    def headers(self):
        return {"traceparent": "x"}


def test_a_call_with_all_its_attempts_is_one_span(script):
    script.answers += [refusal(429), (200, STORED), refusal(409)]
    spans = Spans()

    async def use(client):
        await client.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(Conflict):
            await client.update(CONFIG_MAPS, BODY)

    call(script, use, tracing=spans)

    call_of = ("/api/v1/namespaces/ns/configmaps/a", "in-process")
    got = [("GET", *call_of), ("again after", "429"), ("http.response.status_code", 200)]
    assert spans.seen == [*got, ("PUT", *call_of), 409]
    assert {each.headers["traceparent"] for each in script.calls} == {"x"}


def test_each_warning_is_logged_once_with_the_call_it_came_with(script):
    header = '299 - "v1 is \\"old\\"", 299 ktrain "use v2, please", 199 - "of a cache"'
    script.answers += [(200, STORED, {"warning": header})] * 3

    async def use(client):
        for _ in range(3):
            await client.get(CONFIG_MAPS, "a", "ns")

    with structlog.testing.capture_logs() as logs:
        call(script, use)

    assert [(line["text"], line["method"]) for line in logs] == [('v1 is "old"', "GET"), ("use v2, please", "GET")]


def test_the_texts_of_warnings_that_are_remembered_are_bounded():
    warnings = WarningLog()

    with structlog.testing.capture_logs() as logs:
        for number in range(MAX_TEXTS + 1):
            warnings.note(f'299 - "{number}"', method="GET", path="/")
        warnings.note(f'299 - "{MAX_TEXTS}"', method="GET", path="/")
        warnings.note('299 - "0"', method="GET", path="/")

    assert (len(warnings._seen), len(logs)) == (MAX_TEXTS, MAX_TEXTS + 2)


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


# Watches and pages


def event(type_, version, **fields):
    return {"type": type_, "object": {"metadata": {"name": "a", "resourceVersion": version}, **fields}}


def test_a_watch_goes_on_from_the_last_version_when_its_connection_breaks(script):
    script.streams += [
        [event("ADDED", "3"), event("BOOKMARK", "5"), TransportError("cut")],
        (429, {"code": 429, "message": "busy"}),
        [event("MODIFIED", "6"), {"type": "ERROR", "object": {"code": 500, "message": "etcd"}}],
        [event("DELETED", "7")],
    ]

    async def use(client):
        seen = []
        async with aclosing(client.watch(CONFIG_MAPS, "ns", resource_version="1", label_selector="a=b")) as events:
            async for each in events:
                seen.append((each.type, each.resource_version))
                if len(seen) == 3:
                    break
        return seen

    assert call(script, use)[0] == [("ADDED", "3"), ("MODIFIED", "6"), ("DELETED", "7")]
    assert [each.query["resourceVersion"] for each in script.calls] == ["1", "5", "5", "6"]
    assert {each.query["labelSelector"] for each in script.calls} == {"a=b"}


def test_a_watch_that_is_refused_comes_back_when_the_header_says(script):
    script.streams += [
        (429, b"Too many requests, please try again later.", {"retry-after": "30"}),
        [event("ADDED", "3")],
    ]

    async def use(client):
        async with aclosing(client.watch(CONFIG_MAPS, "ns")) as events:
            await anext(events)

    assert 30 <= call(script, use)[1] <= 36


@pytest.mark.parametrize(("header", "asked_s"), [("7", 7), ("86400", 3600), ("soon", 0)])
def test_a_refusal_without_a_status_says_when_to_come_back_by_its_header(script, header, asked_s):
    script.answers.append((503, "away", {"retry-after": header}))
    script.streams.append((429, b"busy", {"retry-after": header}))

    async def use(client):
        with pytest.raises(ServerError) as away:
            await client.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(TooManyRequests) as busy:
            async with client.stream("/api/v1/configmaps"):
                pass
        return away.value.retry_after_s, busy.value.retry_after_s

    assert call(script, use)[0] == (asked_s, asked_s)


def test_a_watch_that_is_cut_in_the_middle_of_a_line_goes_on_from_the_line_before(script):
    torn = msgspec.json.encode(event("ADDED", "4"))[:-9]
    script.streams += [[event("ADDED", "3"), torn], [event("ADDED", "4")]]

    async def use(client):
        async with aclosing(client.watch(CONFIG_MAPS, "ns")) as events:
            return [(await anext(events)).resource_version for _ in range(2)]

    assert call(script, use)[0] == ["3", "4"]
    assert [each.query.get("resourceVersion") for each in script.calls] == [None, "3"]


def test_a_watch_of_a_server_that_ends_it_at_once_does_not_spin(script):
    script.streams += [[]] * 5

    async def use(client):
        async with asyncio.timeout(60), aclosing(client.watch(CONFIG_MAPS)) as events:
            await anext(events)

    with pytest.raises(TimeoutError):
        call(script, use)
    assert len(script.calls) <= 6


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, Gone),
        (event("ADDED", "2", data={"k": 1}), DecodeError),
    ],
)
def test_a_watch_ends_with_what_it_cannot_go_on_from(script, line, error):
    script.streams.append([line])

    async def use(client):
        with pytest.raises(error):
            await anext(client.watch(CONFIG_MAPS, resource_version="1"))

    call(script, use)


def test_bookmarks_come_to_those_who_want_them(script):
    script.streams.append([event("BOOKMARK", "5")])

    async def use(client):
        async with aclosing(client.watch(CONFIG_MAPS, bookmarks=True)) as events:
            return await anext(events)

    found, _ = call(script, use)
    assert (found.type, found.object, found.resource_version) == ("BOOKMARK", None, "5")


def test_pages_come_one_by_one_and_an_expired_token_ends_them(script):
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [STORED]}
    script.answers += [(200, first), refusal(410)]

    async def use(client):
        pages = client.pages(PODS, "ns", page_size=1)
        page = await anext(pages)
        asked = len(script.calls)
        with pytest.raises(Gone):
            await anext(pages)
        return len(page.items), asked

    assert call(script, use)[0] == (1, 1)
    assert [each.query for each in script.calls] == [{"limit": "1"}, {"limit": "1", "continue": "t"}]


def test_a_list_of_ten_thousand_whose_seventh_page_expired_is_read_once_more_at_once(script):
    def page(number, count, token):
        items = [{"metadata": {"name": f"{number}-{each}", "namespace": "ns"}} for each in range(count)]
        return 200, {"metadata": {"resourceVersion": str(number), "continue": token}, "items": items}

    script.answers += [*(page(number, 500, "t") for number in range(6)), refusal(410), page(99, 10_000, "")]

    found, _ = call(script, lambda c: c.list(CONFIG_MAPS, "ns"))

    assert (len(found.items), found.resource_version, len(script.calls)) == (10_000, "99", 8)


def test_several_warning_headers_of_one_answer_are_all_heard():
    """As the transport joins them."""
    from multidict import CIMultiDict

    from ktrain.framework.client.http import _lower

    headers = _lower(CIMultiDict([("Warning", '299 - "a"'), ("warning", '299 - "b"'), ("ETag", "x")]))

    class One:
        async def request(self, *args, **options):
            return Response(200, headers, msgspec.json.encode(STORED))

    with structlog.testing.capture_logs() as logs:
        call(One(), lambda c: c.get(CONFIG_MAPS, "a", "ns"))
    assert [line["text"] for line in logs] == ["a", "b"]
    assert headers["etag"] == "x"
