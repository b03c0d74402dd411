"""`Operator`: a whole operator on the embedded server, in virtual time."""

import gc
import json
import ssl
from dataclasses import replace
from pathlib import Path

import aiohttp
import anyio
import pytest
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS, LEASES
from ktrain.api.meta import Key
from ktrain.framework.election import lease
from ktrain.framework.env import system_env
from ktrain.framework.errors import LeadershipLost
from ktrain.framework.operator.operator import Operator
from ktrain.framework.operator.settings import Settings
from ktrain.framework.serving.address import parse_address
from ktrain.framework.serving.health import Note
from ktrain.framework.serving.site import serving
from ktrain.framework.webhook import Denied, Registrations
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import simulate

IN_A_TEST = Settings(owns_process=False, leader_election="copier", namespace="default")


def config_map(name, **data):
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def copier(op):
    """Copies each config map whose name has no dash to one whose name has."""
    sources = op.cache.informer(CONFIG_MAPS)

    async def reconcile(key):
        if "-" not in key.name and sources.get(key) is not None:
            await op.client.apply(CONFIG_MAPS, config_map(f"{key.name}-copy"))

    op.controller("copier", reconcile).watches(sources)


def test_a_whole_operator_runs_on_the_embedded_server_in_virtual_time():
    async def scenario(env):
        server = ApiServer(env)
        async with Operator("copier", IN_A_TEST, transport=server.transport(), env=env) as op:
            copier(op)
            async with anyio.create_task_group() as tasks:
                await tasks.start(op.run)
                await op.main.unguarded.create(CONFIG_MAPS, config_map("a"))
                await env.clock.sleep(1)
                copy = await op.client.get(CONFIG_MAPS, "a-copy", "default")
                op.stop()
            held = await op.main.unguarded.get(LEASES, "copier", "default")
            return copy.metadata.name, held.spec.holder_identity

    assert simulate(scenario) == ("a-copy", "")


def test_the_client_of_an_operator_writes_only_while_it_leads():
    async def scenario(env):
        async with Operator("copier", IN_A_TEST, transport=ApiServer(env).transport(), env=env) as op:
            with pytest.raises(LeadershipLost):
                await op.client.create(CONFIG_MAPS, config_map("a"))
            await op.main.unguarded.create(CONFIG_MAPS, config_map("a"))

    simulate(scenario)


async def test_the_election_has_a_connection_of_its_own(tmp_path):
    server = {"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    config = {"current-context": "here", "clusters": [server], "contexts": [context], "users": [{"name": "me"}]}
    (tmp_path / "config").write_text(json.dumps(config))
    async with Operator("copier", replace(IN_A_TEST, kubeconfig=str(tmp_path / "config"))) as op:
        transports = {id(client.transport) for client in (op.client, op.main.unguarded, op.election._client)}

        assert len(transports) == 2
        assert op.election._client.transport is not op.client.transport


def test_a_controller_sees_another_cluster_by_that_clusters_cache():
    async def scenario(env):
        here, there = ApiServer(env), ApiServer(env)
        async with Operator("copier", IN_A_TEST, transport=here.transport(), env=env) as op:
            edge = await op.cluster("edge", transport=there.transport())
            sources = edge.cache.informer(CONFIG_MAPS)

            async def reconcile(key):
                await op.client.apply(CONFIG_MAPS, config_map(f"{key.name}-of-edge"))

            op.controller("edge", reconcile, cluster=edge).watches(sources)
            await edge.unguarded.create(CONFIG_MAPS, config_map("a"))
            async with anyio.create_task_group() as tasks:
                await tasks.start(op.run)
                await env.clock.sleep(1)
                op.stop()
            found = await op.client.list(CONFIG_MAPS, "default")
            return [one.metadata.name for one in found.items]

    assert simulate(scenario) == ["a-of-edge"]


def test_own_writes_are_awaited_in_the_cluster_they_went_to():
    async def scenario(env):
        here, there = ApiServer(env), ApiServer(env)
        late = FaultTransport(there.transport(), env)
        blind = []
        async with Operator("copier", IN_A_TEST, transport=here.transport(), env=env) as op:
            edge = await op.cluster("edge", transport=late)
            sources, copies = op.cache.informer(CONFIG_MAPS), edge.cache.informer(CONFIG_MAPS)

            async def reconcile(key):
                if copies.get(key) is None:
                    blind.append(key.name)
                    await edge.client.apply(CONFIG_MAPS, config_map(key.name))

            controller = op.controller("copier", reconcile)
            controller.for_(sources)
            controller.watches(copies)
            async with anyio.create_task_group() as tasks:
                await tasks.start(op.run)
                late.on("watch").lag(2)
                await op.main.unguarded.create(CONFIG_MAPS, config_map("a"))
                await env.clock.sleep(0.5)
                controller.enqueue(Key("default", "a"))
                await env.clock.sleep(5)
                op.stop()
        return blind

    assert simulate(scenario) == ["a"]


def test_what_is_added_while_it_runs_starts_at_once_and_what_comes_too_late_is_refused():
    async def scenario(env):
        server, journal = ApiServer(env), []
        operator = Operator("copier", IN_A_TEST, transport=server.transport(), env=env)
        async with operator as op, anyio.create_task_group() as tasks:
            await tasks.start(op.run)
            await env.clock.sleep(1)

            async def reconcile(key):
                journal.append(key.name)

            op.controller("late", reconcile).watches(op.cache.informer(CONFIG_MAPS))
            await op.main.unguarded.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(1)
            with pytest.raises(RuntimeError, match="the operator copier runs: it is too late for a webhook"):
                op.admission("/x", lambda request: None)
            op.stop()
            with pytest.raises(RuntimeError, match="the manager stops"):
                op.controller("later", reconcile)
        return journal

    assert simulate(scenario) == ["a"]


def test_outside_of_its_context_an_operator_says_how_to_use_it():
    with pytest.raises(RuntimeError, match="use `async with Operator"):
        _ = Operator("x").client


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"metrics_address": "8080"}, "metrics_address: '8080' is not HOST:PORT"),
        ({"health_address": ":70000"}, "health_address: ':70000' is not HOST:PORT"),
        ({"log_level": "loud"}, "log_level: 'loud' is not one of debug, info"),
        ({"log_format": "xml"}, "log_format: 'xml' is not one of auto, json, text"),
        ({"sync_timeout_s": 0}, "sync_timeout_s: must be more than 0 s"),
        ({"leader_election": "My Lease"}, "leader_election: no Lease can be named 'My Lease'; lower case"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(wrong, text):
    with pytest.raises(ValueError, match=text):
        Settings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"metrics_auth": True}, "metrics_auth: needs metrics_tls"),
        ({"metrics_cert_dir": Path("/certs")}, "metrics_cert_dir: has no effect without metrics_tls"),
    ],
)
def test_tokens_are_asked_for_by_tls_only(wrong, text):
    with pytest.raises(ValueError, match=text):
        Settings(metrics_address=":8443", **wrong)


async def test_its_servers_answer_and_readiness_tells_of_election_and_informers():
    settings = replace(IN_A_TEST, health_address="127.0.0.1:0", metrics_address="127.0.0.1:0")
    operator = Operator("copier", settings, transport=ApiServer(system_env()).transport())
    async with operator as op, anyio.create_task_group() as tasks:
        copier(op)
        op.live_check("mine", lambda: None)
        op.ready_check("mine", lambda: Note("as new"))
        await tasks.start(op.run)
        await op._manager.elected.wait()
        async with aiohttp.ClientSession() as session:

            async def ask(server, path):
                async with session.get(f"http://127.0.0.1:{server.port}{path}") as answer:
                    return await answer.text()

            live = await ask(op.servers.health, "/healthz?verbose")
            ready = await ask(op.servers.health, "/readyz?verbose")
            metrics = await ask(op.servers.metrics, "/metrics")
        op.stop()

    assert live.splitlines() == ["[+]leader-election ok", "[+]mine ok", "ok"]
    assert ready.splitlines() == [
        "[+]informers ok",
        "[+]leader-election ok: this process leads",
        "[+]mine ok: as new",
        "ok",
    ]
    assert 'leader_election_master_status{name="copier"} 1.0' in metrics
    assert 'leader_election_slowpath_total{name="copier"} 0.0' in metrics
    assert 'controller_runtime_max_concurrent_reconciles{controller="copier"} 1.0' in metrics
    assert "ktrain_events_written_total" in metrics


def test_an_idle_operator_asks_for_nothing_but_its_lease():
    async def scenario(env):
        weather = FaultTransport(ApiServer(env).transport(), env)
        async with Operator("copier", IN_A_TEST, transport=weather, env=env) as op, anyio.create_task_group() as tasks:
            copier(op)
            await tasks.start(op.run)
            await env.clock.sleep(30)
            settled = env.clock.monotonic()
            await env.clock.sleep(120)
            calls = weather.calls(since_s=settled)
            op.stop()
        return {(call.method, call.path.split("/")[-2]) for call in calls}, len(calls)

    kinds, number = simulate(scenario)
    assert kinds == {("PATCH", "leases")}
    assert number == pytest.approx(60, abs=2)


async def test_webhooks_are_served_if_there_are_any(tmp_path, issue):
    def check(request):
        return Denied("no")

    issue(tmp_path / "certs", "webhook")
    settings = Settings(owns_process=False, webhook_address="127.0.0.1:0", webhook_cert_dir=tmp_path / "certs")
    env = system_env()
    operator = Operator("none", settings, transport=ApiServer(env).transport(), env=env)
    async with operator as op, anyio.create_task_group() as tasks:
        await tasks.start(op.run)
        assert op.servers.webhooks is None
        op.stop()
    operator = Operator("some", settings, transport=ApiServer(env).transport(), env=env)
    async with operator as op, anyio.create_task_group() as tasks:
        op.admission("/validate", check)
        await tasks.start(op.run)
        trusting = ssl.create_default_context(cafile=tmp_path / "certs/tls.crt")
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}
        session = aiohttp.ClientSession(f"https://127.0.0.1:{op.servers.webhooks.port}")
        async with session, session.post("/validate", json=review, ssl=trusting) as answer:
            response = (await answer.json())["response"]
        op.stop()
    assert (response["uid"], response["allowed"]) == ("u", False)


async def no_work(key):
    pass


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda op: [op.controller("one", no_work) for _ in range(2)], "there is a controller named 'one' already"),
        (lambda op: [op.admission("/a", no_work) for _ in range(2)], "there is something at '/a' already"),
        (lambda op: [op.metrics_route("/a", no_work) for _ in range(2)], "there is something at '/a' already"),
        (lambda op: [op.live_check("a", no_work) for _ in range(2)], "there is something at 'a' already"),
        (lambda op: [op.ready_check("a", no_work) for _ in range(2)], "there is something at 'a' already"),
        (lambda op: op.admission("validate", no_work), "must start with /"),
    ],
)
def test_what_cannot_work_together_is_refused_when_it_is_said(wrong, text):
    async def scenario(env):
        async with Operator("copier", IN_A_TEST, transport=ApiServer(env).transport(), env=env) as op:
            with pytest.raises(ValueError, match=text):
                wrong(op)

    simulate(scenario)


def test_an_operator_has_one_life():
    async def scenario(env):
        op = Operator("copier", IN_A_TEST, transport=ApiServer(env).transport(), env=env)
        with pytest.raises(RuntimeError, match="use `async with"):
            await op.run()
        async with op:
            pass
        with pytest.raises(RuntimeError, match="connected before"):
            async with op:
                pass

    simulate(scenario)


def test_events_of_an_operator_are_counted():
    registry = CollectorRegistry()

    async def scenario(env):
        settings = replace(IN_A_TEST, leader_election="")
        op = Operator("copier", settings, transport=ApiServer(env).transport(), env=env, registry=registry)
        async with op, anyio.create_task_group() as tasks:
            await tasks.start(op.run)
            op.recorder.event(CONFIG_MAPS, config_map("a"), reason="Seen", message="it is there")
            await env.clock.sleep(1)
            op.stop()

    simulate(scenario)
    samples = [sample for family in registry.collect() for sample in family.samples if "events" in sample.name]
    assert 1 in [sample.value for sample in samples if sample.name.endswith("written_total")]


def test_certificates_that_need_a_namespace_say_so(monkeypatch, tmp_path):
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    monkeypatch.setattr(lease, "NAMESPACE_FILE", tmp_path / "namespace")  # pods of this machine may have left one

    async def scenario(env):
        settings = replace(IN_A_TEST, leader_election="", namespace="")
        async with Operator("copier", settings, transport=ApiServer(env).transport(), env=env) as op:
            with pytest.raises(ValueError, match="where the Secret with its certificates lives"):
                op.manage_certificates(service="copier", registrations=Registrations())

    simulate(scenario)


@pytest.mark.parametrize("address", ["http://x:80", "::1:80", "[::1:80", "a b:80", "x:", "x:8 0"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(address)


def test_addresses_are_read_as_people_write_them():
    texts = ("0", ":8080", "127.0.0.1:0", "localhost:65535", "[::1]:8080", "[fe80::1%eth0]:1")
    expected = [None, ("", 8080), ("127.0.0.1", 0), ("localhost", 65535), ("::1", 8080), ("fe80::1%eth0", 1)]
    assert [parse_address(text) for text in texts] == expected


async def test_an_address_that_is_taken_is_named():
    async with serving(web.Application(), "127.0.0.1", 0) as port:
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: "):
            async with serving(web.Application(), "127.0.0.1", port):
                pass
    with pytest.raises(OSError, match=r"cannot listen on 256\.1\.1\.1:80: "):
        async with serving(web.Application(), "256.1.1.1", 80):
            pass


async def test_a_port_that_is_taken_ends_an_operator_with_that_error_and_not_with_a_group():
    async with serving(web.Application(), "127.0.0.1", 0) as port:
        settings = Settings(health_address=f"127.0.0.1:{port}", log_level="error")
        try:
            async with Operator("late", settings, transport=ApiServer(system_env()).transport()) as op:
                with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: "):
                    await op.run()
        finally:  # what an operator that owns its process has set up
            structlog.reset_defaults()
            gc.unfreeze()
