"""What a pass may do to its worker: raise, hang, ignore cancellation, block, return nonsense."""

import asyncio
import io
import json
import time
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ktrain.api.meta import Key
from ktrain.framework.cache.cache import Cache
from ktrain.framework.controller.context import current_reason, current_reconcile_id
from ktrain.framework.controller.controller import Controller, Result
from ktrain.framework.controller.sources import Channel
from ktrain.framework.controller.stuck import LoopWatchdog, task_stack
from ktrain.framework.env import system_env
from ktrain.framework.metrics import Metrics
from ktrain.framework.telemetry.logging import configure
from ktrain.testing.time import simulate

from ..waiting import until

A, B = Key("default", "a"), Key("default", "b")


@asynccontextmanager
async def working(env, reconcile, **options):
    """Run a controller without sources."""
    controller = Controller("test", reconcile, env=env, cache=Cache(None, env), **options)
    async with anyio.create_task_group() as tasks:
        await tasks.start(controller.run)
        yield controller
        tasks.cancel_scope.cancel()


def value(registry, name, **labels):
    return registry.get_sample_value(name, {"controller": "test", **labels})


@pytest.fixture
def registry():
    return CollectorRegistry()


async def stray():
    """Await a task that somebody else has cancelled."""
    task = asyncio.create_task(asyncio.sleep(3600))
    task.cancel()
    await task


async def crash():
    raise RuntimeError("no")


async def nonsense():
    return True


async def not_a_number():
    return Result(requeue_after_s=float("nan"))


async def several():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(crash)
        tasks.start_soon(crash)


@pytest.mark.parametrize("bad", [crash, nonsense, not_a_number, stray, several])
def test_a_pass_that_goes_wrong_is_tried_again_and_costs_nobody_else_anything(bad, registry):
    async def scenario(env):
        passes = []

        async def reconcile(key):
            passes.append(key)
            return await bad() if key == A and passes.count(A) < 3 else None

        async with working(env, reconcile, metrics=Metrics(registry)) as controller:
            controller.enqueue(A)
            controller.enqueue(B)
            await env.clock.sleep(1)
            statistics = controller.statistics()
        return passes, statistics

    with capture_logs() as logs:
        passes, statistics = simulate(scenario)
    assert sorted(passes) == [A, A, A, B]
    assert (statistics.failing, statistics.processing, statistics.ready) == (0, 0, 0)
    assert [line["event"] for line in logs].count("reconcile.crashed") == 2
    assert value(registry, "controller_runtime_reconcile_panics_total") == 2
    assert value(registry, "controller_runtime_reconcile_total", result="error") == 2
    assert value(registry, "controller_runtime_reconcile_timeouts_total") == 0


def test_only_the_deadline_of_the_framework_counts_as_one(registry):
    async def scenario(env):
        async def reconcile(key):
            if key == A:
                await env.clock.sleep(3600)
            async with asyncio.timeout(1):  # of the user
                await env.clock.sleep(3600)

        async with working(
            env, reconcile, metrics=Metrics(registry), reconcile_timeout_s=30, max_concurrent_reconciles=2
        ) as controller:
            controller.enqueue(A)
            controller.enqueue(B)
            await env.clock.sleep(30.004)

    with capture_logs() as logs:
        simulate(scenario)
    assert value(registry, "controller_runtime_reconcile_timeouts_total") == 1
    assert value(registry, "controller_runtime_reconcile_total", result="error") > 2
    assert "cancelled after 30 s: that is its deadline" in [line.get("error") for line in logs]


def test_a_pass_that_ignores_its_cancellation_is_cancelled_again_and_holds_up_its_own_worker_only(registry):
    async def scenario(env):
        ignored, others = [], []

        async def reconcile(key):
            if key == B:
                others.append(env.clock.monotonic())
                return
            while len(ignored) < 3:
                try:
                    await env.clock.sleep(3600)
                except asyncio.CancelledError:
                    ignored.append(env.clock.monotonic())

        async with working(
            env, reconcile, metrics=Metrics(registry), reconcile_timeout_s=10, max_concurrent_reconciles=2
        ) as controller:
            controller.enqueue(A)
            await env.clock.sleep(15)
            controller.enqueue(B)
            await env.clock.sleep(100)
            controller.enqueue(A)  # its worker lives
            await env.clock.sleep(1)
            return ignored, others, controller.statistics().processing

    assert simulate(scenario) == ([10, 20, 30], [15], 0)
    assert value(registry, "controller_runtime_reconcile_timeouts_total") == 1
    assert value(registry, "controller_runtime_reconcile_total", result="success") == 3


def test_cancellation_of_the_controller_reaches_a_pass_even_if_its_deadline_passes_at_that_moment():
    async def scenario(env):
        ends = []

        async def reconcile(key):
            try:
                await env.clock.sleep(3600)
            finally:
                ends.append(env.clock.monotonic())
                with anyio.CancelScope(shield=True):
                    await env.clock.sleep(60)  # tidying up, past the deadline

        async with working(env, reconcile, reconcile_timeout_s=30) as controller:
            controller.enqueue(A)
            await env.clock.sleep(10)
        return ends, env.clock.monotonic(), controller.statistics().processing

    # Tidying is cut off by the deadline, 20 s into it, and nothing is tried again.
    ends, end, processing = simulate(scenario)
    assert (ends, processing) == ([10], 0)
    assert end <= 70


def test_a_stuck_pass_is_logged_once_with_the_place_where_it_waits_and_shows_in_the_check(registry):
    async def waits_for_nothing():
        await asyncio.get_running_loop().create_future()

    async def scenario(env):
        async def reconcile(key):
            await waits_for_nothing()

        async with working(
            env, reconcile, metrics=Metrics(registry), reconcile_timeout_s=None, stuck_after_s=60
        ) as controller:
            controller.enqueue(A)
            await env.clock.sleep(59)
            before = controller.check_stuck()
            await env.clock.sleep(600)
            busy = value(registry, "controller_runtime_active_workers")
            return before, controller.check_stuck(), busy

    with capture_logs() as logs:
        before, after, busy = simulate(scenario)
    (line,) = [line for line in logs if line["event"] == "reconcile.stuck"]
    assert line["object"] == "default/a"
    assert line["running_s"] == 60
    assert "in waits_for_nothing" in line["stack"]
    assert before is None
    assert after == "reconcile of test runs: default/a for 659 s"
    assert busy == 1
    assert value(registry, "ktrain_stuck_reconciles_total") == 1
    assert value(registry, "controller_runtime_active_workers") == 0


def test_a_stack_is_bounded_and_keeps_the_innermost_frames():
    async def deeper(n):
        if n:
            await deeper(n - 1)
        else:
            await asyncio.sleep(10)

    async def scenario(env):
        task = asyncio.create_task(deeper(100))
        await env.clock.sleep(1)
        stack = task_stack(task, limit=5)
        task.cancel()
        return stack

    stack = simulate(scenario)
    assert stack.count("File ") == 5
    assert "in sleep" in stack.splitlines()[-2]


def test_passes_that_never_wait_let_other_tasks_run():
    async def scenario(env):
        passes, seen = 0, []

        async def reconcile(key):
            nonlocal passes
            passes += 1

        async def watch():
            while passes < 1000:
                seen.append(passes)
                await asyncio.sleep(0)

        async with working(env, reconcile) as controller:
            for n in range(1000):
                controller.enqueue(Key("default", str(n)))
            await watch()
        return passes, max(after - before for before, after in pairwise(seen))

    passes, longest = simulate(scenario)
    assert passes == 1000
    assert longest <= 64


def test_a_namespace_with_ten_thousand_keys_does_not_delay_another_and_old_content_not_the_news():
    async def scenario(env):
        order = []

        async def reconcile(key):
            order.append(key.namespace)

        controller = Controller("test", reconcile, env=env, cache=Cache(None, env))
        for n in range(10_000):
            controller.enqueue(Key("existed", str(n)), priority=-100)
            controller.enqueue(Key("loud", str(n)))
        controller.enqueue(Key("quiet", "one"))
        async with anyio.create_task_group() as tasks:
            await tasks.start(controller.run)
            await env.clock.sleep(1)
            tasks.cancel_scope.cancel()
        return order

    order = simulate(scenario)
    assert order.index("quiet") == 1
    assert order.index("existed") == 10_001


def test_the_reason_of_a_pass_can_be_read_by_it_and_by_tasks_that_it_starts():
    async def scenario(env):
        reasons, ids = [], set()

        async def note():
            reasons.append((current_reason(), env.clock.monotonic()))
            ids.add(current_reconcile_id())

        async def reconcile(key):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(note)
            if len(reasons) == 1:
                raise RuntimeError("no")
            return Result(requeue_after_s=5) if len(reasons) == 2 else None

        channel = Channel("timer")
        async with working(env, reconcile) as controller:
            controller.listens(channel, lambda name: [Key("default", name)])
            channel.send("a")
            await env.clock.sleep(10)
            controller.enqueue(A, after_s=10, reason="because")
            await env.clock.sleep(20)
        return [reason for reason, _ in reasons], ids, current_reason()

    reasons, ids, outside = simulate(scenario)
    assert reasons == ["timer sent", "retry", "requeued", "because"]
    assert len(ids) == 4
    assert all(len(one) == 16 for one in ids)
    assert outside == ""


def test_a_result_may_name_the_priority_of_its_run_and_else_keeps_that_of_the_pass():
    async def scenario(env):
        found = []

        async def reconcile(key):
            if key == A:
                found.append(next(one.priority for one in controller.dump() if one.state == "processing"))
                return [Result(requeue_after_s=1), Result(requeue_after_s=1, priority=7), None][len(found) - 1]
            return None

        async with working(env, reconcile) as controller:
            controller.enqueue(A, priority=-100)
            await env.clock.sleep(10)
        return found

    assert simulate(scenario) == [-100, -100, 7]


def test_lines_of_a_pass_carry_its_fields_and_its_reason():
    async def scenario(env):
        async def reconcile(key):
            structlog.get_logger("test").info("seen", object="its own")

        async with working(env, reconcile) as controller:
            controller.enqueue(A)
            await env.clock.sleep(1)

    stream = io.StringIO()
    configure(stream=stream, level="debug")
    try:
        simulate(scenario)
    finally:
        structlog.reset_defaults()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (started,) = [line for line in lines if line["event"] == "reconcile.started"]
    (seen,) = [line for line in lines if line["event"] == "seen"]
    assert (started["controller"], started["object"], started["reason"]) == ("test", "default/a", "requested")
    assert seen["reconcile_id"] == started["reconcile_id"]
    assert seen["object"] == "its own"


async def test_a_blocked_event_loop_is_told_with_the_stack_of_its_thread(registry):
    async def reconcile(key):
        time.sleep(1)  # noqa: ASYNC251 - that is the point

    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            await tasks.start(LoopWatchdog(blocked_after_s=0.2, metrics=Metrics(registry)).run)
            async with working(system_env(), reconcile) as controller:
                controller.enqueue(A)
                # A thread logs it.
                await until(lambda: any(line["event"] == "loop.continues" for line in logs), within_s=30)
            tasks.cancel_scope.cancel()

    (line,) = [line for line in logs if line["event"] == "loop.blocked"]
    assert "in reconcile" in line["stack"]
    assert "time.sleep(1)" in line["stack"]
    assert registry.get_sample_value("ktrain_event_loop_blocked_total") == 1
