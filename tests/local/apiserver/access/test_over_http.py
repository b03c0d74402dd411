"""Credentials as they come over a socket."""

from __future__ import annotations

import asyncio
import json
import ssl

import aiohttp
import pytest

from ktrain.framework.env import system_env
from ktrain.local.apiserver.front.certificates import self_signed
from ktrain.local.apiserver.front.http import serve_http
from ktrain.local.apiserver.server import ApiServer

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
NODES = "/api/v1/nodes"
ADMIN = "Bearer secret"


@pytest.fixture
async def url(server):
    async with serve_http(server, token="secret") as url:
        yield url


async def ask(url, method, path, *headers, body=b""):
    """Send headers as they are; returns the status and the decoded body."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: test", b"Connection: close", *headers]
    writer.write(b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body]))
    try:
        head, _, answer = (await asyncio.wait_for(reader.read(), 5)).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return int(head.split()[1]), json.loads(answer) if answer.startswith(b"{") else answer


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Bearer secret", 200),
        (b"bearer secret", 200),
        (b"BEARER secret ", 200),
        (b"Bearer secret and more", 200),
        (b"Bearer wrong", 401),
        (b"Bearer a b", 401),
        (b"Bearer \xff\xfe", 401),
        (b"Bearer " + b"x" * 100_000, 401),
        (b"Bearer " + b"e." * 50_000, 401),
        # No bearer token at all: a request of nobody.
        (b"Bearer", 403),
        (b"Bearer  secret", 403),
        (b"Basic eDp5", 403),
        (b"secret", 403),
        (b"", 403),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_a_wrong_token_is_refused_and_no_token_is_nobody(url, header, status):
    assert (await ask(url, "GET", NODES, b"Authorization: " + header))[0] == status


async def test_also_a_refusal_of_the_token_has_the_headers_of_every_answer(url):
    async with aiohttp.ClientSession() as session, session.get(url, headers={"Authorization": "Bearer no"}) as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (401, "no-cache, private")
        assert answer.headers["Audit-Id"]


async def test_of_two_tokens_the_first_counts(url):
    right, wrong = b"Authorization: Bearer secret", b"Authorization: Bearer wrong"

    assert (await ask(url, "GET", NODES, right, wrong))[0] == 200
    assert (await ask(url, "GET", NODES, wrong, right))[0] == 401


async def test_nobody_learns_the_version_and_the_health_and_no_more(url):
    statuses = {
        path: (await ask(url, "GET", path))[0] for path in ("/version", "/healthz", "/api", "/openapi/v3", NODES)
    }

    assert statuses == {"/version": 200, "/healthz": 200, "/api": 403, "/openapi/v3": 403, NODES: 403}


async def test_where_everybody_may_do_everything_everybody_has_to_be_somebody():
    async with serve_http(ApiServer(system_env(), authorization="AlwaysAllow"), token="secret") as url:
        assert (await ask(url, "GET", "/version"))[0] == 401
        assert (await ask(url, "GET", NODES, b"Authorization: Bearer secret"))[0] == 200


async def test_impersonation_headers_repeat_and_hold_any_bytes(url):
    headers = [b"Impersonate-User: j\xc3\xbc\xff", b"Impersonate-Group: a", b"impersonate-group: b,c"]
    headers += [b"Impersonate-Extra-Scopes%2FX: 1", b"Impersonate-Extra-scopes%2fx: 2"]
    status, review = await ask(url, "POST", SELF, b"Authorization: Bearer secret", *headers, body=b"{}")

    assert status == 201
    assert review["status"]["userInfo"] == {
        "username": "j\u00fc\ufffd",
        "groups": ["a", "b,c", "system:authenticated"],
        "extra": {"scopes/x": ["1", "2"]},
    }


async def test_impersonation_does_not_begin_without_credentials(url):
    wrong = await ask(url, "GET", "/version", b"Authorization: Bearer wrong", b"Impersonate-User: jane")
    nobody = await ask(url, "GET", "/version", b"Impersonate-User: jane")

    assert (wrong[0], nobody[0]) == (401, 403)
    assert 'User "system:anonymous" cannot impersonate' in nobody[1]["message"]


@pytest.fixture
async def identity(env):
    return self_signed("127.0.0.1", now=env.clock.now())


@pytest.fixture
async def secure(server, identity):
    async with serve_http(server, token="secret", tls=identity) as url:
        yield url


def trusting(identity, tmp_path, user=None):
    """What a client trusts, and shows."""
    context = ssl.create_default_context(cadata=identity.certificate.decode())
    if user is not None:
        file = tmp_path / "user.pem"
        file.write_bytes(user.key + user.certificate)
        context.load_cert_chain(file)
    return context


async def whoami(url, context, **headers):
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url + SELF, json={}, ssl=context) as answer,
    ):
        return (await answer.json())["status"]["userInfo"]


async def test_a_certificate_of_this_server_is_a_user(secure, identity, env, tmp_path):
    user = identity.issue("ann", "staff", "a,b", now=env.clock.now())
    context = trusting(identity, tmp_path, user)
    expected = {"username": "ann", "groups": ["staff", "a,b", "system:authenticated"]}

    assert await whoami(secure, context) == expected
    assert await whoami(secure, context, Authorization="Bearer wrong") == expected


async def test_without_a_certificate_tokens_count(secure, identity, tmp_path):
    user = await whoami(secure, trusting(identity, tmp_path), Authorization=ADMIN)

    assert user["username"] == "system:admin"


async def test_a_certificate_of_somebody_else_ends_the_connection(secure, identity, env, tmp_path):
    other = self_signed("127.0.0.1", now=env.clock.now()).issue("ann", "system:masters", now=env.clock.now())

    with pytest.raises((aiohttp.ClientError, OSError)):
        await whoami(secure, trusting(identity, tmp_path, other))
