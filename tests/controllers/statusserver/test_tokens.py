"""Whose token is good for a report, how often the API server is asked, and for how long its word is remembered."""

from base64 import urlsafe_b64encode

import msgspec
import pytest

from ktrain.controllers.statusserver.tokens import BAD_S, GOOD_S, Tokens
from ktrain.framework.client.client import Client
from ktrain.framework.client.transport import Response
from ktrain.framework.errors import FrameworkError
from ktrain.testing.time import EPOCH, simulate

AUDIENCE = "trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"
GOOD = {"authenticated": True, "user": {"username": "system:serviceaccount:team:default"}, "audiences": [AUDIENCE]}


def token(lives_s=3600, signature="s", **claims):
    said = {
        "aud": [AUDIENCE],
        "exp": EPOCH.timestamp() + lives_s,
        "iat": EPOCH.timestamp(),
        "kubernetes.io": {"namespace": "team"},
        **claims,
    }
    return f"h.{urlsafe_b64encode(msgspec.json.encode(said)).decode().rstrip('=')}.{signature}"


class Reviews:
    """An API server that answers every TokenReview the same, and keeps what it was asked."""

    def __init__(self, status, code=201):
        self.answer = Response(code, {}, msgspec.json.encode({"status": status, "code": code}))
        self.asked = []

    async def request(self, method, path, *, query=(), headers=None, body=None, timeout_s=30.0):
        assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
        self.asked.append(msgspec.json.decode(body)["spec"])
        return self.answer


def asking(scenario, status=GOOD, code=201):
    """Run `scenario(env, admits)`; returns what it returned, and what the API server was asked."""
    reviews = Reviews(status, code)

    async def run(env):
        tokens = Tokens(Client(reviews, env, field_manager="x", retry_budget_s=0), env)

        async def admits(header, namespace="team"):
            return await tokens.admits(header, AUDIENCE, namespace, since=EPOCH)

        return await scenario(env, admits)

    return simulate(run), reviews.asked


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        token(),
        f"Basic {token()}",
        f"Bearer {token()} x",
        "Bearer opaque",
        "Bearer a.b.c",
        "Bearer a.!.c",
        f"Bearer {token(aud=['other'])}",
        f"Bearer {token(aud='other')}",
        f"Bearer {token(aud=7)}",
        f"Bearer {token(lives_s=0)}",
        f"Bearer {token(**{'kubernetes.io': {'namespace': 'other'}})}",
        f"Bearer {token(**{'kubernetes.io': {}})}",
        f"Bearer {token(signature='s' * 20_000)}",
        f"Bearer {token(exp='soon')}",
        f"Bearer {token(exp=-1)}",
        f"Bearer {token(iat=EPOCH.timestamp() - 61)}",
        f"Bearer h.{urlsafe_b64encode(b'[' * 3_000 + b']' * 3_000).decode()}.s",
    ],
    ids=lambda header: header[:60],
)
def test_what_cannot_be_a_good_token_is_refused_and_nobody_asked(header):
    async def scenario(_env, admits):
        return await admits(header)

    assert asking(scenario) == (False, [])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (GOOD, True),
        ({"authenticated": False}, False),
        (GOOD | {"authenticated": False}, False),
        (GOOD | {"audiences": []}, False),
        (GOOD | {"audiences": ["other"]}, False),
        (GOOD | {"user": {"username": "system:serviceaccount:team-2:default"}}, False),
        (GOOD | {"user": {"username": "jane"}}, False),
    ],
)
def test_the_api_servers_word_counts(status, expected):
    async def scenario(_env, admits):
        return await admits(f"bEARER  {token()}")

    admitted, asked = asking(scenario, status)
    assert admitted is expected
    assert asked == [{"token": token(), "audiences": [AUDIENCE]}]


@pytest.mark.parametrize(("status", "for_s"), [(GOOD, GOOD_S), ({"authenticated": False}, BAD_S)])
def test_its_word_is_remembered_for_a_while(status, for_s):
    async def scenario(env, admits):
        for _ in range(int(for_s)):
            await admits(f"Bearer {token()}")
            await env.clock.sleep(1)
        await admits(f"Bearer {token()}")

    assert len(asking(scenario, status)[1]) == 2


def test_a_token_is_not_good_any_more_when_it_ends():
    async def scenario(env, admits):
        before = await admits(f"Bearer {token(lives_s=10)}")
        await env.clock.sleep(10)
        return before, await admits(f"Bearer {token(lives_s=10)}")

    assert asking(scenario)[0] == (True, False)


def test_a_review_that_failed_is_no_word():
    async def scenario(_env, admits):
        for _ in range(2):
            with pytest.raises(FrameworkError):
                await admits(f"Bearer {token()}")

    assert len(asking(scenario, code=500)[1]) == 2
