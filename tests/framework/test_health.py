from contextlib import asynccontextmanager

import aiohttp
import anyio
from prometheus_client import CollectorRegistry

from ktrain.api.core import PODS
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.env import system_env
from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.client import ClientMetrics
from ktrain.framework.metrics.controller import ControllerMetrics
from ktrain.framework.metrics.election import ElectionMetrics
from ktrain.framework.metrics.queue import QueueMetrics
from ktrain.framework.serving.health import HealthServer, MetricsServer, Note, cache_check


@asynccontextmanager
async def asking(server):
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

            async def ask(path):
                async with session.get(path) as answer:
                    return answer.status, await answer.text()

            yield ask
        tasks.cancel_scope.cancel()


async def test_a_failing_check_makes_its_endpoint_fail_and_says_why():
    ready = {"good": lambda: None, "bad": lambda: "the cache is empty"}
    async with asking(HealthServer("127.0.0.1", 0, live={"ping": lambda: None}, ready=ready)) as ask:
        assert await ask("/healthz") == (200, "ok")
        status, text = await ask("/readyz")
        assert status == 500
        assert "[+]good ok\n[-]bad failed: the cache is empty" in text
        assert (await ask("/readyz/good"))[0] == 200
        assert (await ask("/readyz/bad"))[0] == 500
        assert (await ask("/readyz?exclude=bad&verbose")) == (200, "[+]good ok\nok\n")
        unknown = "[+]good ok\nthere is no check named worse to exclude\nok\n"
        assert (await ask("/readyz?exclude=bad&exclude=worse")) == (200, unknown)
        assert (await ask("/readyz/other"))[0] == 404


async def test_without_checks_there_is_one_that_answers():
    async with asking(HealthServer("127.0.0.1", 0)) as ask:
        assert await ask("/healthz/ping") == (200, "ok")
        assert await ask("/readyz?verbose") == (200, "[+]ping ok\nok\n")


async def test_probes_answer_at_further_names_too_and_these_cannot_take_the_usual_ones():
    ready, aliases = {"bad": lambda: "not yet"}, {"ready": "readyz", "healthz": "readyz"}
    async with asking(HealthServer("127.0.0.1", 0, ready=ready, aliases=aliases)) as ask:
        assert (await ask("/ready"))[0] == (await ask("/readyz"))[0] == 500
        assert (await ask("/ready/bad"))[0] == 500
        assert await ask("/healthz") == (200, "ok")


async def test_a_check_that_hangs_or_raises_fails_by_its_name_and_the_others_are_heard():
    async def hangs():
        await anyio.sleep_forever()

    async def well():
        return Note("as new")

    def raises():
        raise KeyError("x")

    ready = {"hangs": hangs, "raises": raises, "well": well}
    async with asking(HealthServer("127.0.0.1", 0, ready=ready)) as ask:
        status, text = await ask("/readyz")
    assert status == 500
    assert text.splitlines() == [
        "[-]hangs failed: no answer in 0.8 s",
        "[-]raises failed: KeyError('x')",
        "[+]well ok: as new",
        "not healthy",
    ]


async def test_readiness_of_a_cache_names_what_is_missing(script):
    cache = Cache(Client(script, system_env(), field_manager="t"), system_env())
    assert cache_check(cache)() is None
    cache.informer(PODS)
    assert cache_check(cache)() == "pods: no answer yet"


async def test_metrics_are_served_with_every_series_at_zero():
    registry = CollectorRegistry()
    ControllerMetrics.of(Metrics(registry), "trainjob")
    async with asking(MetricsServer("127.0.0.1", 0, registry)) as ask:
        status, text = await ask("/metrics")
    assert status == 200
    assert 'controller_runtime_reconcile_total{controller="trainjob",result="error"} 0.0' in text


def test_two_controllers_share_the_series_of_one_registry():
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for name in ("a", "b"):
        QueueMetrics.of(metrics, name).adds()
    assert registry.get_sample_value("workqueue_adds_total", {"name": "b", "controller": "b"}) == 1


def test_without_a_registry_instruments_do_nothing():
    metrics = Metrics()
    ControllerMetrics.of(metrics, "x").result("success")
    QueueMetrics.of(metrics, "x").adds()
    ClientMetrics.of(metrics).requests("GET", "200")
    ElectionMetrics.of(metrics, "x").status(1)
    assert metrics.registry is None
