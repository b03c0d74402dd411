"""Gangs in a world of their own: what is written in which order, what wakes a job, and what is left alone."""

from __future__ import annotations

import msgspec
import pytest

from ktrain.api import assets, core
from ktrain.api import trainer as api
from ktrain.api.jobset import JOBSETS
from ktrain.plugins.coscheduling import POD_GROUPS, CoScheduling
from ktrain.plugins.workload import Workload
from ktrain.plugins.workload.versions import VERSIONS

from .world import KEY, NS, World, play

V1ALPHA2 = VERSIONS[-2]
HEAD = {"apiVersion": "v1"}


async def the_group(world: World):
    (found,) = (await world.user.list(V1ALPHA2.pod_groups, NS)).items
    return found


async def pod_spec(world: World):
    job_set = await world.user.get(core.untyped(JOBSETS), "job", NS)
    return job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]


def test_the_workload_comes_before_its_group_and_the_group_before_the_pods():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        async with world.operator():
            await world.job()
            group = await the_group(world)

            assert world.counting.writes == [
                "POST configmaps",
                "PATCH workloads/job",
                f"PATCH podgroups/{group.metadata.name}",
                "PATCH jobsets/job",
            ]
            # Between the passes the job could have been deleted, and its Workload gone with it.
            assert world.counting.reads == ["/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/job"]
            workload = await world.user.get(V1ALPHA2.workloads, "job", NS)
            assert [owner.uid for owner in group.metadata.owner_references] == [
                workload.metadata.uid,
                (await world.read()).metadata.uid,
            ]
            assert (await pod_spec(world))["schedulingGroup"] == {"podGroupName": group.metadata.name}

    play(scenario)


def test_a_job_that_is_suspended_and_resumed_keeps_its_gang():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        async with world.operator():
            await world.job()
            group = await the_group(world)
            world.counting.calls.clear()
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})

            assert [w for w in world.counting.writes if "trainjobs" not in w] == ["PATCH jobsets/job"] * 2
            assert (await the_group(world)).metadata.uid == group.metadata.uid

    play(scenario)


def test_a_restart_over_a_gang_that_waits_writes_nothing():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        async with world.operator():
            await world.job(suspend=True)
        async with world.operator():
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_a_gang_that_cannot_change_is_made_anew_before_the_job_goes_on():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        async with world.operator():
            await world.job(suspend=True)
            before = await the_group(world)
            keep = {"metadata": {"finalizers": ["scheduling.k8s.io/podgroup-protection"]}}
            await world.user.patch(V1ALPHA2.pod_groups, before.key, keep)
            await world.settle()
            world.counting.calls.clear()
            # 1.36 has no minCount that changes; its pods are still ending.
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False, "trainer": {"numNodes": 3}})
            await world.settle(60)
            assert (await world.job_set()).spec.suspend
            assert (await the_group(world)).metadata.deletion_timestamp

            await world.user.patch(V1ALPHA2.pod_groups, before.key, {"metadata": {"finalizers": None}})
            await world.settle()
            after = await the_group(world)
            assert not (await world.job_set()).spec.suspend
            assert (after.metadata.name, after.spec.scheduling_policy.gang.min_count) == (before.metadata.name, 3)
            assert after.metadata.uid != before.metadata.uid
            assert sorted(w for w in world.counting.writes if "trainjobs" not in w) == sorted(
                [
                    *("DELETE workloads/job", f"DELETE podgroups/{before.metadata.name}"),
                    *("PATCH workloads/job", f"PATCH podgroups/{before.metadata.name}", "PATCH jobsets/job"),
                ]
            )

    play(scenario)


def test_somebody_elses_workload_is_left_alone_and_nothing_is_started():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        spec = {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}
        body = {"apiVersion": V1ALPHA2.workloads.api_version, "kind": "Workload", "spec": spec}
        theirs = await world.user.create(V1ALPHA2.workloads, body | {"metadata": {"name": "job", "namespace": NS}})
        async with world.operator():
            await world.job()
            await world.settle(5)

            assert await world.job_set() is None
            assert (await world.user.get(V1ALPHA2.workloads, "job", NS)) == theirs
            assert "Workload/job exists and is not this TrainJob's" in (await world.read()).status.diagnosis.message

    play(scenario)


def test_a_cluster_without_gangs_is_told_apart_and_nothing_is_started():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        async with world.operator():
            await world.job()
            await world.settle(5)

            assert world.counting.writes[:1] == ["POST configmaps"]
            assert not [write for write in world.counting.writes[1:] if "trainjobs" not in write]
            assert "scheduling.k8s.io in one of the versions v1beta1" in (await world.read()).status.diagnosis.message

    play(scenario, features=())


def without_scheduling_group():
    """The JobSet definition as JobSet releases before Kubernetes 1.36's pods have it."""
    (crd,) = (msgspec.json.decode(msgspec.json.encode(one)) for one in assets.crds() if is_of_job_sets(one))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    job = schema["replicatedJobs"]["items"]["properties"]["template"]["properties"]["spec"]["properties"]
    del job["template"]["properties"]["spec"]["properties"]["schedulingGroup"]
    return crd


def is_of_job_sets(crd):
    return crd["spec"]["names"]["kind"] == "JobSet"


def test_a_job_set_definition_that_lacks_the_field_of_pods_starts_nothing_and_the_job_names_the_field():
    async def scenario(world: World) -> None:
        world.server.install_crds([without_scheduling_group()])
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        async with world.operator():
            await world.job()
            await world.settle(5)

            assert await world.job_set() is None
            diagnosis = (await world.read()).status.diagnosis
            assert diagnosis.reason == "Refused"
            assert "template.spec.schedulingGroup: field not declared in schema" in diagnosis.message

    play(scenario)


def test_with_the_gate_off_a_gang_that_runs_goes_on_and_a_resumed_job_says_which_gate_it_needs():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"workload": {}}}, Workload())
        async with world.operator():
            await world.job()
            before = await the_group(world)
            await world.progress(ready=1, active=1)
            await world.settle()
        *others, _ = world.plugins
        world.plugins = (*others, Workload(enabled=False))
        async with world.operator():
            await world.settle(5)
            assert not [path for _, path in world.counting.calls if "scheduling.k8s.io" in path]
            assert world.counting.writes == []
            assert (await world.read()).status.diagnosis is None

            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(10)
            assert (await world.job_set()).spec.suspend
            assert "feature gate GenericWorkload, which is off" in (await world.read()).status.diagnosis.message
        world.plugins = (*others, Workload())
        async with world.operator():
            await world.settle(60)
            assert not (await world.job_set()).spec.suspend
            assert (await the_group(world)).metadata.uid == before.metadata.uid

    play(scenario)


def test_the_group_of_coscheduling_follows_a_suspended_job_and_stays_as_it_is_beside_a_running_one():
    async def scenario(world: World) -> None:
        await world.use({"podGroupPolicy": {"coscheduling": {}}}, CoScheduling())

        async def members():
            group = await world.user.get(core.untyped(POD_GROUPS), "job", NS)
            return group["spec"]["minMember"]

        async with world.operator():
            await world.job(suspend=True)
            assert await members() == 2
            await world.user.patch(POD_GROUPS, KEY, {"spec": {"minMember": 9}})
            await world.patch(api.TRAIN_JOBS, metadata={"labels": {"a": "b"}})
            assert await members() == 2
            # Kubeflow's Trainer leaves the group at 2, and the scheduler starts two of three.
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False, "trainer": {"numNodes": 3}})
            assert await members() == 3
            await world.user.patch(POD_GROUPS, KEY, {"spec": {"minMember": 9}})
            await world.patch(api.TRAIN_JOBS, metadata={"labels": {"a": "c"}})
            assert await members() == 9

    play(scenario)


class Counter:
    """A plugin that counts passes that build."""

    name = "Counter"

    def __init__(self) -> None:
        self.passes = 0

    def enforce_ml_policy(self, info, ctx) -> None:
        self.passes += 1


@pytest.mark.parametrize(
    ("suspended", "namespace", "woken"), [(True, NS, True), (True, "other", False), (False, NS, False)]
)
def test_limit_ranges_wake_the_suspended_jobs_of_their_namespace(suspended, namespace, woken):
    async def scenario(world: World) -> None:
        counter = Counter()
        world.plugins += (CoScheduling(), counter)
        await world.user.create(core.NAMESPACES, {**HEAD, "kind": "Namespace", "metadata": {"name": "other"}})
        async with world.operator():
            await world.job(suspend=suspended)
            before = counter.passes
            metadata = {"name": "l", "namespace": namespace}
            await world.user.create(
                core.LIMIT_RANGES, {**HEAD, "kind": "LimitRange", "metadata": metadata, "spec": {"limits": []}}
            )
            await world.settle()

            assert (counter.passes > before) is woken

    play(scenario)


def test_runtime_classes_wake_all_suspended_jobs_which_costs_no_write():
    async def scenario(world: World) -> None:
        counter = Counter()
        world.plugins += (CoScheduling(), counter)
        async with world.operator():
            await world.job(suspend=True)
            before = counter.passes
            world.counting.calls.clear()
            body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"}, "handler": "h"}
            await world.user.create(core.RUNTIME_CLASSES, body)
            await world.settle()

            assert counter.passes > before
            assert world.counting.writes == []

    play(scenario)
