"""Webhooks that answer badly: too late, too much, something else, or a patch that nobody can apply."""

import asyncio
import base64
import json
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme

from ktrain.local.apiserver.admission import callouts

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


class Hook:
    """A webhook over TLS that answers what a test says. `answer` makes the whole HTTP response from a review."""

    def __init__(self):
        self.authority = trustme.CA()
        self.bundle = base64.b64encode(self.authority.cert_pem.bytes()).decode()
        self.reviews, self.connections, self.answer = [], 0, responding({"allowed": True})
        self.hang_up = False

    @asynccontextmanager
    async def serving(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("127.0.0.1", "hook.default.svc").configure_cert(context)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.path = head.split(b" ", 2)[1].decode()
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                review = json.loads(await reader.readexactly(length))
                if self.hang_up:
                    self.hang_up = False
                    break
                self.reviews.append(review)
                answered = await self.answer(review)
                writer.write(answered)
                await writer.drain()
                if answered.endswith(b"CUT"):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()


def http(body, status="200 OK", length=None, headers=""):
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body


def responding(response, **changes):
    async def answer(review):
        head = {"apiVersion": review["apiVersion"], "kind": review["kind"], **changes}
        return http(json.dumps({**head, "response": {"uid": review["request"]["uid"], **response}}).encode())

    return answer


def saying(raw):
    async def answer(_):
        return raw

    return answer


def patching(*operations):
    patch = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return responding({"allowed": True, "patch": patch, "patchType": "JSONPatch"})


@pytest.fixture
async def hook(api):
    """A webhook that is asked about ConfigMaps."""
    hook = Hook()
    async with hook.serving():
        for kind in ("Validating", "Mutating"):
            body = {
                "metadata": {"name": "c"},
                "webhooks": [
                    {
                        "name": f"{kind.lower()}.ktrain.test",
                        "clientConfig": {"url": f"https://127.0.0.1:{hook.port}/{kind}", "caBundle": hook.bundle},
                        "rules": [RULE] if kind == "Mutating" else [],
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "timeoutSeconds": 9,
                    }
                ],
            }
            made = await api.send("POST", f"{CONFIGURATIONS}{kind.lower()}webhookconfigurations", body)
            assert made.status == 201, made
        yield hook


async def refusal(api, name="a"):
    answer = await api.send("POST", api.path("configmaps"), api.config_map(name))
    assert answer.status == 500, answer
    return answer.body["message"].removeprefix("Internal error occurred: ")


CALLED = 'failed calling webhook "mutating.ktrain.test": '


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (responding({"uid": "x", "allowed": True}), 'received invalid webhook response: expected response.uid="'),
        (
            responding({}, kind="Foo"),
            "received invalid webhook response: expected webhook response of admission.k8s.io",
        ),
        (saying(http(b"null")), "received invalid webhook response: webhook response was absent"),
        (saying(http(b"<html>")), "failed to call webhook: "),
        (saying(http(b"[" * 100_000)), "failed to call webhook: "),
        (saying(http(b"\xff\xfe")), "failed to call webhook: "),
        (saying(http(b"")), "failed to call webhook: 0-length response with status code: 200"),
        (responding({"allowed": "yes"}), "failed to call webhook: "),
        (
            responding({"allowed": True, "patch": "W10="}),
            "received invalid webhook response: webhook returned response.p",
        ),
        (responding({"allowed": True, "patch": "!", "patchType": "JSONPatch"}), "failed to call webhook: "),
        (saying(http(b"down", "500 Oops")), 'failed to call webhook: an error on the server ("down") has prevented'),
        (saying(http(b"", "404 No")), "failed to call webhook: the server could not find the requested resource"),
        (
            saying(http(b"abc", length=10) + b"CUT"),
            "failed to call webhook: unexpected error when reading response body",
        ),
        (saying(b"CUT"), "failed to call webhook: "),
    ],
)
async def test_an_answer_that_is_none_is_a_failed_call(api, hook, answer, text):
    hook.answer = answer
    assert (await refusal(api)).startswith(CALLED + text)


async def test_a_webhook_that_takes_its_time_is_not_waited_for(api, hook):
    async def never(_):
        await asyncio.sleep(60)

    hook.answer = never
    change = [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 1}]
    await api.send("PATCH", f"{CONFIGURATIONS}mutatingwebhookconfigurations/c", change, JSON_PATCH)
    begun = asyncio.get_running_loop().time()
    assert (await refusal(api)).endswith(
        f'Post "https://127.0.0.1:{hook.port}/Mutating?timeout=1s": context deadline exceeded'
    )
    assert asyncio.get_running_loop().time() - begun < 3


async def test_a_webhook_has_no_more_time_than_its_caller(api, hook):
    async def never(_):
        await asyncio.sleep(60)

    hook.answer = never
    begun = asyncio.get_running_loop().time()
    answer = await api.send("POST", api.path("configmaps"), api.config_map("a"), timeout="100ms")
    assert answer.body["message"].endswith("context deadline exceeded")
    assert asyncio.get_running_loop().time() - begun < 1


async def test_an_answer_that_does_not_end_is_not_kept(api, hook, monkeypatch):
    monkeypatch.setattr(callouts, "MAX_ANSWER_BYTES", 1000)
    hook.answer = saying(http(b" " * 2000))
    assert "the answer is larger than 1000 bytes" in await refusal(api)


async def test_redirects_end(api, hook):
    hook.answer = saying(http(b"", "307 Elsewhere", headers=f"Location: https://127.0.0.1:{hook.port}/x\r\n"))
    assert "stopped after 10 redirects" in await refusal(api)
    assert len(hook.reviews) <= 11


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        (
            [{"op": "remove", "path": "/nope"}],
            "error in remove for path: '/nope': Unable to remove nonexistent key: nope",
        ),
        ([{"op": "test", "path": "/data/k", "value": "x"}], "testing value /data/k failed: test failed"),
        (
            [{"op": "add", "path": "/nope/x", "value": 1}],
            'add operation does not apply: doc is missing path: "/nope/x"',
        ),
        ([{"op": "foo", "path": "/data"}], "Unexpected kind: foo"),
        ([{"op": "add", "value": 1}], "add operation failed to decode path: missing value"),
        ([{"op": "add", "path": "/data/k", "value": 1}], "json: cannot unmarshal"),
        ([{"op": "replace", "path": "/kind", "value": "Foo"}], 'no kind "Foo" is registered for version "v1"'),
        ([{"op": "replace", "path": "", "value": []}], "couldn't get version/kind"),
        (
            [{"op": "add", "path": "/data/z", "value": "z" * 1000}]
            + [{"op": "copy", "from": "/data", "path": f"/data/k{i}"} for i in range(30)],
            "Unable to complete the copy, the accumulated size increase of copy is",
        ),
        ([{"op": "add", "path": "/data/z", "value": "1"}] * 10_001, CALLED + "received undecodable patch"),
    ],
)
async def test_a_patch_that_does_not_apply_says_why(api, hook, operations, text):
    hook.answer = patching(*operations)
    assert (await refusal(api)).startswith(text)


async def test_a_patch_may_replace_what_is_not_there(api, hook):
    hook.answer = patching({"op": "replace", "path": "/data/new", "value": "1"})
    assert (await api.create("configmaps", api.config_map("a")))["data"] == {"k": "v", "new": "1"}


async def test_a_patch_cannot_move_an_object_to_another_namespace(api, hook):
    hook.answer = patching({"op": "replace", "path": "/metadata/namespace", "value": "kube-system"})
    answer = await api.send("POST", api.path("configmaps"), api.config_map("a"))
    assert answer.status == 400, answer


async def test_what_goes_wrong_does_not_matter_under_ignore_but_a_denial_does(api, hook):
    path = f"{CONFIGURATIONS}mutatingwebhookconfigurations/c"
    await api.send(
        "PATCH", path, [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}], JSON_PATCH
    )
    hook.answer = saying(http(b"<html>"))
    await api.create("configmaps", api.config_map("a"))
    hook.answer = responding({"allowed": False, "status": {"code": 200, "message": "no"}})
    answer = await api.send("POST", api.path("configmaps"), api.config_map("b"))
    assert (answer.status, answer.body["message"]) == (
        400,
        'admission webhook "mutating.ktrain.test" denied the request: no',
    )


JSON_PATCH = "application/json-patch+json"


async def test_connections_are_kept_and_one_that_was_closed_meanwhile_is_made_again(api, hook):
    for name in "abc":
        await api.create("configmaps", api.config_map(name))
    assert (len(hook.reviews), hook.connections) == (3, 1)
    hook.hang_up = True
    await api.create("configmaps", api.config_map("d"))
    assert (len(hook.reviews), hook.connections) == (4, 2)


async def test_a_new_connection_that_is_closed_without_an_answer_is_not_made_again(api, hook):
    hook.hang_up = True
    assert "EOF" in await refusal(api)
    assert (len(hook.reviews), hook.connections) == (0, 1)


async def test_a_certificate_that_the_bundle_does_not_vouch_for_is_not_trusted(api, hook):
    path = f"{CONFIGURATIONS}mutatingwebhookconfigurations/c"
    other = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    change = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": other}]
    await api.send("PATCH", path, change, JSON_PATCH)
    assert "tls: failed to verify certificate: x509: certificate signed by unknown authority" in await refusal(api)
    assert hook.reviews == []
