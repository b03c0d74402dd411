"""Keys in, passes out: which events lead to a pass, and what its result means for the next."""

import asyncio
from itertools import pairwise

import anyio
import pytest
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ktrain.api.core import CONFIG_MAPS, PODS
from ktrain.api.meta import Key, owner_reference
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.controller.controller import TURN_PASSES, Controller
from ktrain.framework.controller.predicates import GENERATION_CHANGED, label_selector
from ktrain.framework.errors import Blocked, TerminalError
from ktrain.framework.metrics import Metrics
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

from .controlling import A, config_map, running


def test_every_change_of_an_object_leads_to_a_pass_over_its_key():
    async def scenario(env):
        passes = []

        async def reconcile(client, informer, key):
            stored = informer.get(key)
            passes.append((key, stored and dict(stored.data)))

        async with running(env, reconcile) as (_, client):
            await client.create(CONFIG_MAPS, config_map("a", x="1"))
            await env.clock.sleep(1)
            await client.patch(CONFIG_MAPS, A, {"data": {"x": "2"}})
            await env.clock.sleep(1)
            await client.delete(CONFIG_MAPS, A)
            await env.clock.sleep(1)
        return [(key, data) for key, data in passes if key == A]

    assert simulate(scenario) == [(A, {"x": "1"}), (A, {"x": "2"}), (A, None)]


def test_events_that_come_together_cost_one_pass_for_whoever_waits_a_moment():
    async def scenario(env):
        passes = []

        async def reconcile(client, informer, key):
            passes.append((key.name, informer.get(key).data["x"], env.clock.monotonic()))

        async with running(env, reconcile, batch_s=0.05) as (_, client):
            begun_s = env.clock.monotonic()
            await client.create(CONFIG_MAPS, config_map("a", x="1"))
            for x in "234":
                await client.patch(CONFIG_MAPS, A, {"data": {"x": x}})
            await env.clock.sleep(1)
            await client.patch(CONFIG_MAPS, A, {"data": {"x": "5"}})
            await env.clock.sleep(1)
        return [(name, x, round(at_s - begun_s, 2)) for name, x, at_s in passes]

    assert simulate(scenario) == [("a", "4", 0.05), ("a", "5", 1.05)]


def test_one_key_is_never_in_two_workers_and_changes_meanwhile_give_one_more_pass():
    async def scenario(env):
        running_now, most, passes = set(), 0, 0

        async def reconcile(client, informer, key):
            nonlocal most, passes
            assert key not in running_now
            running_now.add(key)
            most = max(most, len(running_now))
            await env.clock.sleep(10)
            running_now.discard(key)
            passes += key == A

        async with running(env, reconcile, max_concurrent_reconciles=4) as (_, client):
            for name in "abcdef":
                await client.create(CONFIG_MAPS, config_map(name))
            await env.clock.sleep(1)
            for n in range(5):
                await client.patch(CONFIG_MAPS, A, {"data": {"n": str(n)}})
            await env.clock.sleep(100)
        return most, passes

    assert simulate(scenario) == (4, 2)


def test_failures_back_off_terminal_errors_wait_and_success_forgets():
    async def scenario(env):
        times = []

        async def reconcile(client, informer, key):
            if key != A:
                return
            times.append(env.clock.monotonic())
            if len(times) <= 4:
                raise RuntimeError("again")
            if len(times) == 6:
                raise TerminalError("never")

        async with running(env, reconcile) as (controller, client):
            await client.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(10)
            count_after_success = len(times)
            failures = controller.statistics().failing
            controller.enqueue(A)
            await env.clock.sleep(5000)
        return times[:5], count_after_success, failures, len(times)

    times, after_success, failing, total = simulate(scenario)
    pauses = [b - a for a, b in pairwise(times)]
    for pause, nominal in zip(pauses, [0.005, 0.01, 0.02, 0.04], strict=True):
        assert nominal <= pause <= nominal * 1.2 + 1e-9
    assert (after_success, failing, total) == (5, 0, 6)


def test_what_users_have_to_mend_is_tried_again_and_is_one_line_and_no_error():
    registry = CollectorRegistry()

    async def scenario(env):
        async def reconcile(client, informer, key):
            if key == A:
                raise Blocked("the runtime is missing")

        async with running(env, reconcile, metrics=Metrics(registry)) as (_, client):
            with structlog.testing.capture_logs() as lines:
                await client.create(CONFIG_MAPS, config_map("a"))
                await env.clock.sleep(60)
        return lines

    lines = simulate(scenario)
    counts = {
        result: registry.get_sample_value(
            "controller_runtime_reconcile_total", {"controller": "test", "result": result}
        )
        for result in ("error", "requeue_after")
    }
    assert counts["error"] == 0
    assert 10 <= counts["requeue_after"] <= 16
    said = [(one["event"], one.get("blocker")) for one in lines if one["log_level"] != "debug"]
    assert said == [("reconcile.blocked", "the runtime is missing")]


def test_a_pass_past_its_deadline_is_cancelled_and_tried_again():
    async def scenario(env):
        ends = []

        async def reconcile(client, informer, key):
            if key == A:
                try:
                    await env.clock.sleep(3600)
                except asyncio.CancelledError:
                    ends.append(env.clock.monotonic())
                    raise

        async with running(env, reconcile, reconcile_timeout_s=30) as (_, client):
            await client.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(95)
        return ends[:3]

    assert simulate(scenario) == pytest.approx([30, 60, 90], abs=0.1)


def test_owned_objects_wake_their_owner_by_group_and_kind():
    async def scenario(env):
        woken = []
        server = ApiServer(env)
        client = Client(server.transport(), env, field_manager="test")
        cache = Cache(client, env)

        async def reconcile(key):
            woken.append(key)

        controller = Controller("test", reconcile, env=env, cache=cache)
        controller.owns(cache.informer(PODS), owner=CONFIG_MAPS)
        async with anyio.create_task_group() as tasks:
            await tasks.start(cache.run)
            await tasks.start(controller.run)
            for kind, version in (("ConfigMap", "v1"), ("ConfigMap", "other/v1"), ("Secret", "v1")):
                name = f"p-{kind.lower()}-{version.split('/')[0]}"
                owner = owner_reference(version, kind, f"owner-of-{name}", "uid-1")
                spec = {"containers": [{"name": "c", "image": "i"}]}
                meta = {"name": name, "namespace": "default", "ownerReferences": [owner]}
                await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
            await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return woken

    assert simulate(scenario) == [Key("default", "owner-of-p-configmap-v1")]


def test_results_are_counted_under_the_names_of_controller_runtime():
    registry = CollectorRegistry()

    async def scenario(env):
        async def reconcile(client, informer, key):
            if key == A and informer.get(A).data.get("fail"):
                raise TerminalError("no")

        async with running(env, reconcile, metrics=Metrics(registry)) as (_, client):
            await client.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(1)
            await client.patch(CONFIG_MAPS, A, {"data": {"fail": "1"}})
            await env.clock.sleep(1)

    simulate(scenario)
    value = registry.get_sample_value
    assert value("controller_runtime_reconcile_total", {"controller": "test", "result": "error"}) == 1
    assert value("controller_runtime_terminal_reconcile_errors_total", {"controller": "test"}) == 1
    assert value("controller_runtime_reconcile_total", {"controller": "test", "result": "success"}) >= 1
    assert value("controller_runtime_max_concurrent_reconciles", {"controller": "test"}) == 1
    assert value("workqueue_depth", {"name": "test", "controller": "test", "priority": "0"}) == 0
    assert value("workqueue_adds_total", {"name": "test", "controller": "test"}) >= 2


def test_status_writes_wake_nobody_who_asked_for_the_generation():
    async def scenario(env):
        passes = []

        async def reconcile(key):
            passes.append((key.name, env.clock.monotonic()))

        server = ApiServer(env)
        client = Client(server.transport(), env, field_manager="test")
        cache = Cache(client, env)
        controller = Controller("test", reconcile, env=env, cache=cache)
        controller.for_(cache.informer(PODS), predicate=GENERATION_CHANGED & label_selector("team=a"))
        meta = {"name": "p", "namespace": "default", "labels": {"team": "a"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        key = Key("default", "p")
        async with anyio.create_task_group() as tasks:
            await tasks.start(cache.run)
            await tasks.start(controller.run)
            await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
            await env.clock.sleep(1)
            await client.patch(PODS, key, {"status": {"phase": "Running"}}, subresource="status")
            await env.clock.sleep(1)
            await client.patch(PODS, key, {"metadata": {"labels": {"team": "b"}}})
            await env.clock.sleep(1)
            await client.patch(PODS, key, {"metadata": {"labels": {"team": "a"}}})
            await env.clock.sleep(1)
            await client.delete(PODS, key, grace_period_seconds=0)
            await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return [round(when) for _, when in passes]

    # Created, left the selector, came back, deleted: the status is no news.
    assert simulate(scenario) == [0, 2, 3, 4]


def test_the_exemplars_of_passes_tell_their_reason_once_a_second_also_when_nothing_is_traced():
    registry = CollectorRegistry()

    async def scenario(env):
        async def reconcile(client, informer, key):
            await env.clock.sleep(0.003 if key.name == "a" else 0.3)

        async with running(env, reconcile, metrics=Metrics(registry)) as (_, client):
            await client.create(CONFIG_MAPS, config_map("a"))
            await env.clock.sleep(1.5)
            await client.create(CONFIG_MAPS, config_map("b"))
            await client.create(CONFIG_MAPS, config_map("c"))
            await env.clock.sleep(2)

    simulate(scenario)
    families = text_string_to_metric_families(generate_openmetrics(registry).decode())
    told = [
        sample.exemplar.labels["reason"]
        for family in families
        if family.name == "controller_runtime_reconcile_time_seconds"
        for sample in family.samples
        if sample.exemplar
    ]
    assert told == ["ConfigMap default/a added", "ConfigMap default/b added"]


@pytest.mark.parametrize("workers", [1, 16, 100])
def test_workers_whose_passes_never_wait_let_others_have_turns_however_many_they_are(workers):
    async def scenario(env):
        passes, most = 0, 0

        async def reconcile(client, informer, key):
            nonlocal passes
            passes += 1

        async with running(env, reconcile, max_concurrent_reconciles=workers) as (controller, _):
            await env.clock.sleep(1)
            for number in range(2000):
                controller.enqueue(Key("default", str(number)))
            seen = passes
            while passes < 2000:
                await asyncio.sleep(0)
                most, seen = max(most, passes - seen), passes
        return most

    assert simulate(scenario) <= max(TURN_PASSES, workers)
