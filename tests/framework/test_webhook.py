import asyncio
import base64
import io
import ssl
from contextlib import asynccontextmanager

import aiohttp
import anyio
import msgspec
import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.patch import json_patch
from ktrain.framework.env import Env, SystemClock
from ktrain.framework.jsondiff import json_diff
from ktrain.framework.webhook import MAX_BODY_BYTES, Allowed, Denied, WebhookServer, respond

OBJECT = {"metadata": {"name": "a"}, "spec": {"x": 1}, "unknown": {"kept": True}}


def review(obj=OBJECT, operation="CREATE"):
    request = {"uid": "u1", "kind": {"kind": "TrainJob"}, "operation": operation, "namespace": "ns", "object": obj}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answer(handler, document=None, **options):
    body = document if isinstance(document, bytes) else msgspec.json.encode(document or review())
    result = respond(handler, body, **options)
    assert (result["apiVersion"], result["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return msgspec.json.decode(msgspec.json.encode(result["response"]))


def test_a_mutation_is_answered_by_the_patch_that_makes_it_even_if_done_in_place():
    def handler(request):
        request.object["spec"]["y"] = 2
        return Allowed(object=request.object, warnings=("careful",))

    response = answer(handler)

    assert (response["uid"], response["allowed"], response["warnings"]) == ("u1", True, ["careful"])
    patch = msgspec.json.decode(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec/y", "value": 2}]


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


class SteppedClock(SystemClock):
    """Sleeps until it is told to go on."""

    def __init__(self):
        self.step = anyio.Event()
        self.asleep = anyio.Event()

    async def sleep(self, seconds):
        self.asleep.set()
        await self.step.wait()

    async def advance(self):
        """Let one sleep end, and wait for the next."""
        step, self.step, self.asleep = self.step, anyio.Event(), anyio.Event()
        step.set()
        await self.asleep.wait()


@asynccontextmanager
async def serving_webhooks(handlers, directory):
    clock = SteppedClock()
    server = WebhookServer(handlers, directory, Env(clock), host="127.0.0.1", port=0)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        yield server, clock
        tasks.cancel_scope.cancel()


def common_name(port):
    pem = ssl.get_server_certificate(("127.0.0.1", port))
    return x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string()


async def test_reviews_are_answered_over_tls_and_a_body_too_large_is_refused_in_one(tmp_path, issue):
    issue(tmp_path, "one")
    async with (
        serving_webhooks({"/validate": lambda request: Allowed()}, tmp_path) as (server, _),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
    ):
        url = f"https://127.0.0.1:{server.port}/validate"
        async with session.post(url, json=review()) as good:
            assert (good.status, (await good.json())["response"]["allowed"]) == (200, True)
        headers = {"Content-Type": "application/json"}
        async with session.post(url, data=io.BytesIO(b"x" * (MAX_BODY_BYTES + 1)), headers=headers) as large:
            response = (await large.json())["response"]
            assert (large.status, response["status"]["code"]) == (200, 413)


async def test_a_new_certificate_is_served_without_a_restart_and_a_broken_one_is_not(tmp_path, issue):
    issue(tmp_path, "one")
    async with serving_webhooks({}, tmp_path) as (server, clock):
        assert await asyncio.to_thread(common_name, server.port) == "CN=one"
        (tmp_path / "tls.crt").write_text("half a fi")
        await clock.advance()
        assert await asyncio.to_thread(common_name, server.port) == "CN=one"
        issue(tmp_path, "two")
        await clock.advance()
        assert await asyncio.to_thread(common_name, server.port) == "CN=two"
