"""What a workqueue reports to whoever scrapes it."""

from prometheus_client import CollectorRegistry

from ktrain.framework.metrics import Metrics
from ktrain.framework.metrics.queue import QueueMetrics
from ktrain.framework.workqueue.queue import WorkQueue
from ktrain.testing.time import simulate


def series(registry, name, **labels):
    return registry.get_sample_value(name, {"name": "q", "controller": "q", **labels})


def test_depth_is_told_by_priority_and_ages_are_read_when_somebody_scrapes():
    registry = CollectorRegistry()

    async def scenario(env):
        queue = WorkQueue(env, metrics=QueueMetrics.of(Metrics(registry), "q"))
        before = series(registry, "workqueue_depth", priority="0")
        for n in range(3):
            queue.add(n, priority=-100)
        queue.add(0, priority=0)
        depths = [series(registry, "workqueue_depth", priority=p) for p in ("0", "-100")]
        await queue.get()
        await env.clock.sleep(2)
        await queue.get()
        await env.clock.sleep(3)
        ages = [
            series(registry, f"workqueue_{name}_seconds")
            for name in ("unfinished_work", "longest_running_processor")
        ]  # fmt: skip
        queue.done(0)
        queue.done(1)
        queue.done(await queue.get())
        return before, depths, ages

    assert simulate(scenario) == (0, [1, 2], [8, 5])
    assert [series(registry, "workqueue_depth", priority=p) for p in ("0", "-100")] == [0, 0]
    assert series(registry, "workqueue_unfinished_work_seconds") == 0
    assert series(registry, "workqueue_adds_total") == 3


def test_more_than_25_priorities_share_one_series():
    registry = CollectorRegistry()

    async def scenario(env):
        queue = WorkQueue(env, metrics=QueueMetrics.of(Metrics(registry), "q"))
        for n in range(1000):
            queue.add(n, priority=n)
        depths = {
            sample.labels["priority"]: sample.value
            for metric in registry.collect() if metric.name == "workqueue_depth"
            for sample in metric.samples
        }  # fmt: skip
        for _ in range(1000):
            queue.done(await queue.get())
        return depths

    depths = simulate(scenario)
    assert len(depths) == 26
    assert depths["exceeded_cardinality_limit"] == 975
    assert sum(depths.values()) == 1000
    assert series(registry, "workqueue_depth", priority="exceeded_cardinality_limit") == 0
