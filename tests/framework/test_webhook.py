import asyncio
import base64
import io
from contextlib import asynccontextmanager

import aiohttp
import anyio
import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from ktrain.api.core import JOBS
from ktrain.api.patch import json_patch
from ktrain.framework.env import system_env
from ktrain.framework.errors import NotFound, Status
from ktrain.framework.jsondiff import json_diff
from ktrain.framework.metrics import Metrics
from ktrain.framework.webhook import (
    MAX_BODY_BYTES,
    Allowed,
    Conversion,
    Denied,
    Refused,
    WebhookServer,
    defaulter,
    respond,
)
from ktrain.testing.time import simulate

OBJECT = {"metadata": {"name": "a"}, "spec": {"x": 1}, "unknown": {"kept": True}}


def review(obj=OBJECT, operation="CREATE", version="v1", **more):
    request = {"uid": "u1", "kind": {"kind": "TrainJob"}, "operation": operation, "namespace": "ns", "object": obj}
    return {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "request": {**request, **more}}


def answer(handler, document=None, **options):
    """What `respond` answers, as it is on the wire; on virtual time."""
    body = document if isinstance(document, bytes) else msgspec.json.encode(document or review())

    async def ask(env):
        return await respond(handler, body, **options)

    result = simulate(ask)
    assert (result["apiVersion"], result["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return msgspec.json.decode(msgspec.json.encode(result["response"]))


def patch_of(response):
    return msgspec.json.decode(base64.b64decode(response["patch"]))


def test_a_mutation_is_answered_by_the_patch_that_makes_it_even_if_done_in_place():
    def handler(request):
        request.object["spec"]["y"] = 2
        return Allowed(object=request.object, warnings=("careful",))

    response = answer(handler)

    assert (response["uid"], response["allowed"], response["warnings"]) == ("u1", True, ["careful"])
    assert patch_of(response) == [{"op": "add", "path": "/spec/y", "value": 2}]


def test_an_unchanged_object_needs_no_patch():
    assert answer(lambda request: Allowed(object=request.object)) == {"uid": "u1", "allowed": True}


def test_a_denial_carries_code_reason_and_causes():
    causes = ({"field": "spec.x", "message": "too small"},)
    response = answer(lambda request: Denied("spec.x is too small", 422, "Invalid", causes))

    assert response == {
        "uid": "u1",
        "allowed": False,
        "status": {
            "status": "Failure",
            "message": "spec.x is too small",
            "code": 422,
            "reason": "Invalid",
            "details": {"causes": list(causes)},
        },
    }


@pytest.mark.parametrize("field", ["object", "oldObject", "nobodyDeclaredThis"])
def test_an_object_nested_too_deeply_is_refused_under_the_uid_of_its_request(field):
    deep = b'{"a":' * 100_000 + b"[]" + b"}" * 100_000
    body = b'{"kind":"AdmissionReview","request":{"kind":{"kind":"X"},"%s":%s,"uid":"7"}}' % (field.encode(), deep)

    response = answer(lambda _: Allowed(), body)

    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("7", False, 400)
    assert "nested too deeply" in response["status"]["message"]


@pytest.mark.parametrize("where", ["object", "uid"])
def test_a_request_that_is_not_utf_8_is_refused(where):
    fields = {"object": b'{"a":"b"}', "uid": b'"7"'}
    fields[where] = b'{"a":"\xff"}' if where == "object" else b'"\xff"'
    body = b'{"kind":"AdmissionReview","request":{"object":%s,"uid":%s}}' % (fields["object"], fields["uid"])

    response = answer(lambda _: Allowed(), body)

    assert (response["uid"], response["allowed"], response["status"]["code"]) == (
        "7" if where == "object" else "",
        False,
        400,
    )


def test_a_handler_that_crashes_is_a_refusal_of_this_request():
    def handler(request):
        raise KeyError("oops")

    response = answer(handler)
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u1", False, 500)


@pytest.mark.parametrize(
    ("body", "options"),
    [(b"", {}), (b"[]", {}), (b'{"kind":"AdmissionReview"}', {}), (b"{}", {"content_type": "text/plain"})],
)
def test_what_is_no_review_is_refused_inside_a_review(body, options):
    response = answer(lambda request: Allowed(), body, **options)
    assert (response["allowed"], response["status"]["code"]) == (False, 400)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_review_is_answered_in_the_version_it_came_in(version):
    async def ask(env):
        good = await respond(lambda _: Allowed(), msgspec.json.encode(review(version=version)))
        bad = await respond(lambda _: Allowed(), msgspec.json.encode(review(obj=3, version=version)))
        return good, bad

    good, bad = simulate(ask)
    assert {good["apiVersion"], bad["apiVersion"]} == {f"admission.k8s.io/{version}"}
    assert (good["response"]["uid"], bad["response"]["uid"]) == ("u1", "u1")
    assert (good["response"]["allowed"], bad["response"]["status"]["code"]) == (True, 400)


def test_a_version_nobody_knows_is_refused_with_the_known_ones():
    status = answer(lambda _: Allowed(), review(version="v7"))["status"]
    assert status["code"] == 400
    assert "known are v1 and v1beta1" in status["message"]


def test_mutations_of_one_path_build_on_each_other_and_make_one_patch():
    def first(request):
        request.object["spec"]["y"] = 2
        return Allowed(request.object, ("one",))

    async def second(request):
        return Allowed({**request.object, "spec": {**request.object["spec"], "z": request.object["spec"]["y"] + 1}})

    response = answer([first, second, lambda _: Allowed(warnings=("three",))])

    assert response["warnings"] == ["one", "three"]
    assert patch_of(response) == [
        {"op": "add", "path": "/spec/y", "value": 2},
        {"op": "add", "path": "/spec/z", "value": 3},
    ]


def test_the_first_denial_ends_and_brings_the_warnings_before_it():
    def never(request):
        raise AssertionError("not reached")

    response = answer([lambda _: Allowed(OBJECT | {"spec": {}}, ("w",)), lambda _: Denied("no"), never])

    assert (response["allowed"], response["warnings"], response["status"]["message"]) == (False, ["w"], "no")
    assert "patch" not in response


def test_a_delete_is_neither_defaulted_nor_patched():
    called = []
    document = review(None, "DELETE", oldObject=OBJECT)
    assert answer(defaulter(called.append), document) == {"uid": "u1", "allowed": True}
    assert answer(lambda request: Allowed(request.old_object | {"x": 1}), document) == {"uid": "u1", "allowed": True}
    assert called == []


def test_a_defaulter_may_change_its_argument_or_return_another_object():
    def in_place(obj):
        obj["spec"]["y"] = 1

    expected = [{"op": "add", "path": "/spec/y", "value": 1}]
    assert patch_of(answer(defaulter(in_place))) == expected
    assert patch_of(answer(defaulter(lambda obj: obj | {"spec": {**obj["spec"], "y": 1}}))) == expected


def test_an_object_is_decoded_to_its_type_and_one_that_does_not_fit_is_a_400_with_the_path():
    seen = []

    def handler(request):
        seen.append(request.decode(JOBS).spec.parallelism)
        request.decode_old(JOBS)
        return Allowed()

    assert answer(handler, review({"spec": {"parallelism": 3}}, oldObject={}))["allowed"]
    assert seen == [3]
    status = answer(handler, review({"spec": {"parallelism": "many"}}))["status"]
    assert status["code"] == 400
    assert "$.spec.parallelism" in status["message"]
    assert answer(handler, review({}))["status"]["message"] == "the request has no oldObject"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Refused(Denied("not like this", 422)), 422, "not like this"),
        (NotFound(Status(message="no such runtime", code=404)), 404, "no such runtime (404)"),
        (OSError("disk"), 500, "the webhook failed: OSError('disk')"),
    ],
)
def test_an_error_with_a_code_keeps_it_and_any_other_is_a_panic(error, code, message):
    panics = []

    async def handler(request):
        raise error

    status = answer(handler, on_panic=lambda: panics.append(1))["status"]
    assert (status["code"], status["message"].lstrip(": ")) == (code, message)
    assert bool(panics) is (code == 500)


def test_a_coroutine_that_takes_too_long_is_refused_before_the_api_server_gives_up():
    async def handler(request):
        await asyncio.sleep(30)

    async def scenario(env):
        result = await respond(handler, msgspec.json.encode(review()))
        return result["response"], env.clock.monotonic()

    response, took = simulate(scenario)
    assert (response["allowed"], response["status"]["code"], took) == (False, 504, 9.0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("a/~", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=10,
)


@given(old=st.dictionaries(st.text("ab/~", max_size=2), json_values), new=st.dictionaries(st.text("ab/~"), json_values))
def test_a_diff_applied_to_the_old_gives_the_new(old, new):
    assert msgspec.json.encode(json_patch(old, json_diff(old, new)), order="sorted") == msgspec.json.encode(
        new, order="sorted"
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(
    request=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("uid", "object", "oldObject", "kind", "operation", "userInfo", "name", "options"), anything
        ),
    )
    | anything,
    noise=st.none() | st.binary(),
)
def test_whatever_comes_the_answer_is_a_valid_review(request, noise):
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = msgspec.json.encode(document) if noise is None else noise

    def grow(obj):
        obj["metadata"]["labels"]["new"] = "1"

    with structlog.testing.capture_logs():  # a traceback per example would take most of the time
        response = answer([defaulter(grow), lambda one: Allowed() if one.decode(JOBS) else Denied("no")], body)
    assert isinstance(response["uid"], str)
    assert response["allowed"] is False or request["object"]


async def test_an_object_of_three_megabytes_is_answered_in_time(tmp_path, issue):
    def add(obj):
        obj["spec"]["y"] = 1

    big = {"metadata": {"name": "big"}, "spec": {"env": [{"name": f"N{n}", "value": "x" * 280} for n in range(10_000)]}}
    body = msgspec.json.encode(review(big, "UPDATE", oldObject=big))
    assert 5.5e6 < len(body) < MAX_BODY_BYTES
    issue(tmp_path, "one")
    async with (
        serving(tmp_path, {"/mutate": defaulter(add)}) as (_, session),
        asyncio.timeout(5),
        session.post("/mutate", data=io.BytesIO(body), headers={"Content-Type": "application/json"}) as answered,
    ):
        response = (await answered.json())["response"]
    assert patch_of(response) == [{"op": "add", "path": "/spec/y", "value": 1}]


@asynccontextmanager
async def serving(directory, handlers=None, conversion=None, **options):
    server = WebhookServer(handlers or {}, directory, system_env(), host="127.0.0.1", port=0, **options)
    if conversion is not None:
        server.conversion(conversion)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        async with aiohttp.ClientSession(
            f"https://127.0.0.1:{server.port}", connector=aiohttp.TCPConnector(ssl=False)
        ) as session:
            yield server, session
        tasks.cancel_scope.cancel()


async def test_reviews_are_answered_over_tls_and_a_body_too_large_is_refused_in_one(tmp_path, issue):
    issue(tmp_path, "one")
    async with serving(tmp_path, {"/validate": lambda request: Allowed()}) as (_, session):
        async with session.post("/validate", json=review()) as good:
            assert (good.status, (await good.json())["response"]["allowed"]) == (200, True)
        headers = {"Content-Type": "application/json"}
        async with session.post("/validate", data=io.BytesIO(b"x" * (MAX_BODY_BYTES + 1)), headers=headers) as large:
            response = (await large.json())["response"]
            assert (large.status, response["status"]["code"]) == (200, 413)


async def test_the_limit_is_the_api_servers_if_that_is_shorter(tmp_path, issue):
    async def handler(request):
        await asyncio.sleep(30)

    issue(tmp_path, "one")
    async with (
        serving(tmp_path, {"/slow": handler}) as (_, session),
        asyncio.timeout(5),
        session.post("/slow?timeout=1s", json=review()) as slow,
    ):
        assert (await slow.json())["response"]["status"]["message"] == "the webhook did not decide in 0.9 s"


async def test_a_server_is_ready_when_it_reaches_itself(tmp_path, issue):
    issue(tmp_path, "one")
    server = WebhookServer({}, tmp_path, system_env(), host="127.0.0.1", port=0)
    assert "does not listen yet" in server.check()
    async with serving(tmp_path) as (server, _):
        assert server.check() is None


async def test_answers_panics_and_requests_in_flight_are_counted(tmp_path, issue):
    issue(tmp_path, "one")
    registry = CollectorRegistry()
    inside, go_on = anyio.Event(), anyio.Event()

    async def handler(request):
        inside.set()
        await go_on.wait()
        raise KeyError("oops")

    def crash(document):
        raise KeyError("oops")

    kind = Conversion("g", "K", hub="v2")
    kind.spoke("v1", to_hub=crash, from_hub=crash)
    label = {"webhook": "/validate"}
    prefix = "controller_runtime_webhook"
    async with serving(tmp_path, {"/validate": handler}, kind, metrics=Metrics(registry)) as (_, session):
        for code in ("200", "500"):
            assert registry.get_sample_value(f"{prefix}_requests_total", {**label, "code": code}) == 0
        assert registry.get_sample_value(f"{prefix}_panics_total") == 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: session.post("/validate", json=review()))
            await inside.wait()
            assert registry.get_sample_value(f"{prefix}_requests_in_flight", label) == 1
            go_on.set()
        objects = [{"apiVersion": "g/v1", "kind": "K"}]
        request = {"uid": "u", "desiredAPIVersion": "g/v2", "objects": objects}
        document = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
        async with session.post("/convert", json=document) as failed:
            assert (await failed.json())["response"]["result"]["status"] == "Failure"
    assert registry.get_sample_value(f"{prefix}_requests_in_flight", label) == 0
    assert registry.get_sample_value(f"{prefix}_requests_total", {**label, "code": "200"}) == 1
    assert registry.get_sample_value(f"{prefix}_latency_seconds_count", label) == 1
    assert registry.get_sample_value(f"{prefix}_panics_total") == 1
    assert registry.get_sample_value("controller_runtime_conversion_webhook_panics_total") == 1


def test_two_webhooks_cannot_have_one_path(tmp_path):
    server = WebhookServer({"/a": lambda request: Allowed()}, tmp_path, system_env())
    with pytest.raises(ValueError, match="/a already"):
        server.admission("/a", lambda request: Allowed())
    server.conversion(Conversion("g", "K", hub="v1"))
    with pytest.raises(ValueError, match="registered already"):
        server.conversion(Conversion("g", "K", hub="v1"))
