"""Who may read metrics, and how they are served."""

import ssl
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from ktrain.framework.client.client import Client
from ktrain.framework.env import system_env
from ktrain.framework.errors import TransportError
from ktrain.framework.metrics import Metrics
from ktrain.framework.serving.authorization import ALLOWED_TTL_S, DENIED_TTL_S, TOKEN_TTL_S, Authorizer
from ktrain.framework.serving.health import MetricsServer
from ktrain.framework.serving.self_signed import SelfSigned
from ktrain.framework.webhook.certificates import CertificateDirectory
from ktrain.testing.time import simulate

KNOWN = (201, {"status": {"authenticated": True, "user": {"username": "prometheus", "groups": ["scrapers"]}}})
UNKNOWN = (201, {"status": {"authenticated": False}})
ALLOWED = (201, {"status": {"allowed": True}})
DENIED = (201, {"status": {"allowed": False}})
BROKEN = (500, {"kind": "Status", "code": 500, "message": "etcd is away"})


def authorizer(script, env):
    return Authorizer(Client(script, env, field_manager="t", retry_budget_s=0), env)


@asynccontextmanager
async def serving(server, *, tls=None):
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        url = f"http{'s' if tls is not None else ''}://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(ssl=tls or False)) as session:
            yield session
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("header", ["", "Basic eA==", "Bearer ", "Bearer", "Bearer " + "x" * 20_000])
def test_without_a_token_nobody_is_asked_and_nobody_let_in(script, header):
    async def scenario(env):
        return await authorizer(script, env).check(header, "GET", "/metrics")

    assert simulate(scenario).code == 401
    assert not script.calls


def test_an_unknown_token_and_a_user_without_permission_are_told_apart(script):
    async def scenario(env):
        asked = authorizer(script, env)
        return [await asked.check(f"Bearer {token}", "GET", "/metrics") for token in ("a", "b")]

    script.answers += [UNKNOWN, KNOWN, DENIED]
    unknown, denied = simulate(scenario)
    assert (unknown.code, denied.code) == (401, 403)
    assert denied.reason == "prometheus may not get /metrics"


def test_what_was_decided_is_remembered_for_its_time_by_user_verb_and_path(script):
    async def scenario(env):
        asked = authorizer(script, env)

        async def calls(method, path, expected):
            before = len(script.calls)
            assert (await asked.check("Bearer a", method, path)).code == expected
            return [call.path.rsplit("/", 1)[1] for call in script.calls[before:]]

        script.answers += [KNOWN, ALLOWED, DENIED, DENIED]
        seen = [await calls("GET", "/metrics", 200), await calls("GET", "/metrics", 200)]
        seen += [
            await calls("POST", "/metrics", 403),
            await calls("GET", "/more", 403),
            await calls("GET", "/more", 403),
        ]
        await env.clock.sleep(DENIED_TTL_S)
        script.answers += [DENIED]
        seen += [await calls("GET", "/more", 403), await calls("GET", "/metrics", 200)]
        await env.clock.sleep(TOKEN_TTL_S)
        script.answers += [KNOWN]
        seen += [await calls("GET", "/metrics", 200)]
        await env.clock.sleep(ALLOWED_TTL_S)
        script.answers += [KNOWN, ALLOWED]
        return [*seen, await calls("GET", "/metrics", 200)]

    token, access = "tokenreviews", "subjectaccessreviews"
    assert simulate(scenario) == [
        *([token, access], []),
        *([access], [access], []),
        *([access], []),
        [token],
        [token, access],
    ]


def test_a_review_that_fails_is_tried_again_and_lets_nobody_in(script):
    async def scenario(env):
        asked = authorizer(script, env)
        good = await asked.check("Bearer a", "GET", "/metrics")
        script.answers += [TransportError("away")] * 5
        return good.code, (await asked.check("Bearer b", "GET", "/metrics")).code

    script.answers += [BROKEN, TransportError("away"), KNOWN, BROKEN, ALLOWED]
    assert simulate(scenario) == (200, 500)


def test_a_review_that_is_refused_is_not_tried_again(script):
    async def scenario(env):
        return await authorizer(script, env).check("Bearer a", "GET", "/metrics")

    script.answers += [(403, {"kind": "Status", "code": 403, "message": "you may not create tokenreviews"})]
    assert simulate(scenario).code == 500
    assert len(script.calls) == 1


def test_a_flood_of_tokens_is_forgotten_and_no_token_is_kept_in_the_clear(script):
    async def scenario(env):
        asked = authorizer(script, env)
        for number in range(2000):
            script.answers.append(UNKNOWN)
            await asked.check(f"Bearer token-{number}", "GET", "/metrics")
        return asked._users._kept

    kept = simulate(scenario)
    assert len(kept) == 1024
    assert b"token-1999" not in kept


async def test_metrics_are_for_those_who_may_and_so_is_what_is_served_beside_them(script):
    async def more(request):
        return web.Response(text="more")

    script.answers += [KNOWN, ALLOWED, DENIED]
    server = MetricsServer(
        "127.0.0.1", 0, CollectorRegistry(), authorizer=authorizer(script, system_env()), routes={"/more": more}
    )
    async with serving(server) as session:
        codes = []
        for path, headers in [("/metrics", {}), ("/metrics", {"Authorization": "Bearer a"})]:
            async with session.get(path, headers=headers) as answer:
                codes.append(answer.status)
        async with session.get("/more", headers={"Authorization": "Bearer a"}) as answer:
            codes.append(answer.status)
    assert codes == [401, 200, 403]


def test_nothing_is_served_in_the_place_of_metrics():
    with pytest.raises(ValueError, match="'/metrics' cannot be served beside /metrics"):
        MetricsServer("127.0.0.1", 0, CollectorRegistry(), routes={"/metrics": None})


async def test_a_scraper_that_knows_openmetrics_gets_exemplars():
    registry = CollectorRegistry()
    Metrics(registry).histogram("pass_seconds", "Passes.", (1.0,), {"name": "x"})(0.5, {"trace_id": "abc"})
    async with serving(MetricsServer("127.0.0.1", 0, registry)) as session:
        accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
        async with session.get("/metrics", headers=accept) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert '# {trace_id="abc"} 0.5' in await answer.text()
        async with session.get("/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert "trace_id" not in await answer.text()


async def test_a_header_without_end_is_refused():
    server = MetricsServer("127.0.0.1", 0, CollectorRegistry())
    async with serving(server) as session, session.get("/metrics", headers={"X": "x" * 100_000}) as answer:
        assert answer.status == 400


async def test_metrics_by_tls_with_a_certificate_of_our_own_making():
    env = system_env()
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    server = MetricsServer("127.0.0.1", 0, CollectorRegistry(), certificates=SelfSigned(env))
    async with serving(server, tls=trusting) as session, session.get("/metrics") as answer:
        assert answer.status == 200


async def test_metrics_by_tls_with_a_certificate_from_a_directory(tmp_path, issue):
    issue(tmp_path / "certs", "metrics")
    trusting = ssl.create_default_context(cafile=tmp_path / "certs/tls.crt")
    certificates = CertificateDirectory(tmp_path / "certs", system_env())
    server = MetricsServer("127.0.0.1", 0, CollectorRegistry(), certificates=certificates)
    async with serving(server, tls=trusting) as session, session.get("/metrics") as answer:
        assert answer.status == 200
