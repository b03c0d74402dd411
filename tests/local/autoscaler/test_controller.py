"""The autoscaler on virtual time: a target with pods whose use the test says, and what becomes of its size."""

from __future__ import annotations

import anyio

from ktrain.api.core import PODS, untyped
from ktrain.api.meta import Key, Object, Resource
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.client.options import PatchType
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager.manager import Manager
from ktrain.local.autoscaler import make_controller
from ktrain.local.autoscaler.types import AUTOSCALERS
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.testing.time import simulate

NS = "default"
TARGETS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True, type=Object)
LABELS = {"app": "w"}
HALF = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
EACH = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "250m"}}}
EXTERNAL = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}},
}


class World:
    """A server, the autoscaler, a Deployment, and as many ready pods as it asks for."""

    def __init__(self, env) -> None:
        self.env = env
        self.server = make_server(env, Registry([]))
        self.user = Client(self.server.transport(), env, field_manager="test")
        self.busy = 0.0
        """Cores that each pod uses; None: /proc says nothing."""

    async def times(self, pods):
        """Tell CPU seconds as if each pod had always been as busy as now."""
        if self.busy is None:
            return {}
        return {pod["metadata"]["uid"]: self.busy * self.env.clock.monotonic() for pod in pods}

    async def target(self, replicas=2, requests="1") -> None:
        resources = {"requests": {"cpu": requests}} if requests else {}
        self.pod = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        template = {"metadata": {"labels": LABELS}, "spec": self.pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": NS}}
        await self.user.create(untyped(TARGETS), {**body, "spec": spec})
        await self.follow()

    async def follow(self) -> int:
        """Play the Deployment's controller and the kubelet; returns the size."""
        size = (await self.user.get(untyped(TARGETS), "w", NS))["spec"]["replicas"]
        present = {pod["metadata"]["name"] for pod in (await self.user.list(untyped(PODS), NS)).items}
        wanted = {f"w-{index}" for index in range(size)}
        for name in sorted(wanted - present):
            meta = {"name": name, "namespace": NS, "labels": LABELS}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": self.pod}
            await self.user.create(untyped(PODS), body)
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await self.user.patch(PODS, Key(NS, name), {"status": status}, subresource="status")
        for name in sorted(present - wanted):
            await self.user.delete(PODS, Key(NS, name), grace_period_s=0)
        await self.user.patch(TARGETS, Key(NS, "w"), {"status": {"replicas": size}}, subresource="status")
        return size

    async def autoscaler(self, *metrics, low=1, high=10, **spec) -> None:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
        spec = {"scaleTargetRef": reference, "minReplicas": low, "maxReplicas": high, "metrics": list(metrics)} | spec
        body = {"apiVersion": "autoscaling/v2", "kind": AUTOSCALERS.kind, "metadata": {"name": "a", "namespace": NS}}
        await self.user.create(untyped(AUTOSCALERS), {**body, "spec": spec})

    async def after(self, seconds) -> int:
        """Let time go on, with pods that follow the target's size; returns the size."""
        for _ in range(seconds):
            await self.env.clock.sleep(1)
            size = await self.follow()
        return size

    async def status(self) -> dict:
        return (await self.user.get(untyped(AUTOSCALERS), "a", NS))["status"]

    async def conditions(self) -> dict:
        return {c["type"]: (c["status"], c["reason"]) for c in (await self.status())["conditions"]}

    async def message(self, kind) -> str:
        return next(c["message"] for c in (await self.status())["conditions"] if c["type"] == kind)


def play(scenario) -> None:
    async def whole(env) -> None:
        world = World(env)
        async with world.server.running():
            client = Client(world.server.transport(), env, field_manager="autoscaler")
            cache = Cache(client, env, warns_of_overlaps=False)
            recorder = EventRecorder(client, env, component="autoscaler")
            controller = make_controller(client, cache, env, recorder, world.times)
            async with anyio.create_task_group() as tasks:
                await tasks.start(Manager(cache=cache, controllers=[controller], recorder=recorder).run)
                await scenario(world)
                tasks.cancel_scope.cancel()

    simulate(whole)


def test_a_busy_target_grows_at_once_and_an_idle_one_shrinks_after_five_minutes():
    async def scenario(world: World) -> None:
        await world.target()
        await world.autoscaler(HALF, high=6)
        world.busy = 0.5
        assert await world.after(30) == 2
        assert await world.conditions() == {
            "AbleToScale": ("True", "ReadyForNewScale"),
            "ScalingActive": ("True", "ValidMetricFound"),
            "ScalingLimited": ("False", "DesiredWithinRange"),
        }
        status = await world.status()
        assert status["currentMetrics"] == [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageValue": "500m", "averageUtilization": 50}},
            }
        ]
        assert "lastScaleTime" not in status

        world.busy = 0.9
        assert await world.after(40) == 6
        assert (await world.conditions())["ScalingLimited"] == ("True", "TooManyReplicas")
        assert "lastScaleTime" in await world.status()

        world.busy = 0.1
        assert await world.after(200) == 6
        assert (await world.conditions())["AbleToScale"] == ("True", "ScaleDownStabilized")
        assert await world.after(130) < 6

    play(scenario)


def test_windows_and_policies_of_the_behavior_count():
    async def scenario(world: World) -> None:
        await world.target(replicas=4)
        one = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}], "stabilizationWindowSeconds": 0}
        await world.autoscaler(HALF, behavior={"scaleDown": one, "scaleUp": {"selectPolicy": "Disabled"}})
        world.busy = 0.05
        assert await world.after(15) == 3
        assert (await world.conditions())["ScalingLimited"] == ("True", "ScaleDownLimit")
        assert await world.after(60) == 2
        world.busy = 1.0
        assert await world.after(60) == 2
        assert (await world.conditions())["ScalingLimited"] == ("True", "ScaleUpLimit")

    play(scenario)


def test_a_size_out_of_the_bounds_is_brought_back_without_a_measurement():
    async def scenario(world: World) -> None:
        await world.target(replicas=1)
        world.busy = None
        await world.autoscaler(HALF, low=3)
        assert await world.after(10) == 3

    play(scenario)


def test_an_amount_for_each_pod_needs_no_requests_and_a_share_does():
    async def scenario(world: World) -> None:
        await world.target(requests=None)
        await world.autoscaler(HALF)
        world.busy = 1.0
        assert await world.after(30) == 2
        assert (await world.conditions())["ScalingActive"] == ("False", "FailedGetResourceMetric")
        assert "requests no cpu" in await world.message("ScalingActive")

        await world.user.patch(AUTOSCALERS, Key(NS, "a"), {"spec": {"metrics": [EACH]}}, type=PatchType.MERGE)
        assert await world.after(30) == 10

    play(scenario)


def test_a_metric_that_is_not_known_is_said_and_lets_nothing_shrink():
    async def scenario(world: World) -> None:
        await world.target(replicas=3)
        await world.autoscaler(EXTERNAL)
        assert await world.after(10) == 3
        assert (await world.conditions())["ScalingActive"] == ("False", "InvalidMetricSourceType")
        assert "metric External is not known here" in await world.message("ScalingActive")

        both = {"spec": {"metrics": [EXTERNAL, HALF]}}
        await world.user.patch(AUTOSCALERS, Key(NS, "a"), both, type=PatchType.MERGE)
        world.busy = 0.1
        assert await world.after(600) == 3
        world.busy = 0.9
        assert await world.after(15) > 3
        assert "not counted: metric External" in await world.message("ScalingActive")

    play(scenario)


def test_where_nothing_is_known_of_the_pods_the_size_stays_and_the_status_says_why():
    async def scenario(world: World) -> None:
        await world.target()
        world.busy = None
        await world.autoscaler(HALF)
        assert await world.after(30) == 2
        assert "no pod of the target has been measured" in await world.message("ScalingActive")

    play(scenario)


def test_a_target_that_is_scaled_to_zero_stays_there():
    async def scenario(world: World) -> None:
        await world.target(replicas=0)
        await world.autoscaler(HALF)
        assert await world.after(20) == 0
        assert (await world.conditions())["ScalingActive"] == ("False", "ScalingDisabled")

    play(scenario)


def test_a_target_that_does_not_exist_is_said_until_it_does():
    async def scenario(world: World) -> None:
        await world.autoscaler(HALF)
        await world.env.clock.sleep(10)
        assert await world.conditions() == {"AbleToScale": ("False", "FailedGetScale")}
        assert '"w" not found' in await world.message("AbleToScale")
        before = (await world.user.get(untyped(AUTOSCALERS), "a", NS))["metadata"]["resourceVersion"]
        await world.env.clock.sleep(60)
        assert (await world.user.get(untyped(AUTOSCALERS), "a", NS))["metadata"]["resourceVersion"] == before

        await world.target()
        await world.after(10)
        assert (await world.conditions())["AbleToScale"][0] == "True"

    play(scenario)


def test_pods_that_have_ended_or_go_are_not_counted():
    async def scenario(world: World) -> None:
        await world.target(replicas=3)
        await world.user.patch(PODS, Key(NS, "w-2"), {"status": {"phase": "Failed"}}, subresource="status")
        await world.autoscaler(HALF)
        world.busy = 0.75
        assert await world.after(20) == 3  # two pods that work, times 1.5

    play(scenario)
