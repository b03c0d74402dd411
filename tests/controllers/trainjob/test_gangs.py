"""Gangs in a world of their own: what is written in which order, what wakes a job, and what is left alone."""

from __future__ import annotations

from copy import deepcopy
from time import process_time

import msgspec
import pytest

from ktrain.api import assets, core
from ktrain.api import trainer as api
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, ObjectMeta
from ktrain.controllers.trainjob.indexes import Indexes, MappedKeys
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.pipeline import Registry
from ktrain.plugins.coscheduling import POD_GROUPS, CoScheduling
from ktrain.plugins.volcano import Volcano
from ktrain.plugins.workload import Workload
from ktrain.plugins.workload.versions import VERSIONS

from .conftest import RUNTIME
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


def runtime_class(name: str, overhead: str = "") -> dict:
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "h"}
    return body | ({"overhead": {"podFixed": {"cpu": overhead}}} if overhead else {})


def naming(runtime_class_name: str) -> dict:
    """The test's runtime, with pods that name a RuntimeClass."""
    spec = deepcopy(RUNTIME["spec"])
    pod = spec["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["runtimeClassName"] = runtime_class_name
    return spec


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
@pytest.mark.parametrize(
    ("suspended", "created", "woken"), [(True, "kata", True), (True, "gvisor", False), (False, "kata", False)]
)
def test_a_runtime_class_wakes_the_suspended_jobs_whose_runtime_names_it(kind, suspended, created, woken):
    async def scenario(world: World) -> None:
        counter = Counter()
        world.plugins += (CoScheduling(), counter)
        resource = api.TRAINING_RUNTIMES if kind == "TrainingRuntime" else api.CLUSTER_TRAINING_RUNTIMES
        metadata = {"name": "sandboxed"} | ({"namespace": NS} if resource.namespaced else {})
        body = {"apiVersion": api.API_VERSION, "kind": kind, "metadata": metadata, "spec": naming("kata")}
        await world.user.create(resource, body)
        async with world.operator():
            await world.job(suspend=suspended, runtimeRef={"kind": kind, "name": "sandboxed"})
            before = counter.passes
            world.counting.calls.clear()
            await world.user.create(core.RUNTIME_CLASSES, runtime_class(created))
            await world.settle()

            assert (counter.passes > before) is woken
            assert world.counting.writes == []

    play(scenario)


def test_runtimes_of_the_same_name_in_other_namespaces_wake_no_job():
    async def scenario(world: World) -> None:
        counter = Counter()
        world.plugins += (CoScheduling(), counter)
        await world.user.create(core.NAMESPACES, {**HEAD, "kind": "Namespace", "metadata": {"name": "other"}})
        body = {"apiVersion": api.API_VERSION, "kind": "TrainingRuntime", "spec": naming("kata")}
        await world.user.create(api.TRAINING_RUNTIMES, body | {"metadata": {"name": "rt", "namespace": "other"}})
        async with world.operator():
            await world.job(suspend=True)
            before = counter.passes
            await world.user.create(core.RUNTIME_CLASSES, runtime_class("kata"))
            await world.settle()

            assert counter.passes == before

    play(scenario)


@pytest.mark.parametrize(("policy", "plugin"), [("coscheduling", CoScheduling), ("volcano", Volcano)])
def test_the_group_of_a_suspended_job_follows_limit_ranges_and_its_runtime_class(policy, plugin):
    async def scenario(world: World) -> None:
        await world.use(naming("kata") | {"podGroupPolicy": {policy: {}}}, plugin())
        (groups,) = [watch.resource for watch in plugin().watches() if watch.resource.kind == "PodGroup"]

        async def resources():
            await world.settle()
            return (await world.user.get(core.untyped(groups), "job", NS))["spec"]["minResources"]

        async with world.operator():
            await world.job(suspend=True)
            assert await resources() == {}
            metadata = {"name": "l", "namespace": NS}
            limits = [{"type": "Container", "defaultRequest": {"cpu": "500m"}, "max": {"memory": "1Gi"}}]
            await world.user.create(
                core.LIMIT_RANGES, {**HEAD, "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}
            )
            assert await resources() == {"cpu": "1", "memory": "2Gi"}
            await world.user.create(core.RUNTIME_CLASSES, runtime_class("kata", "250m"))
            assert await resources() == {"cpu": "1500m", "memory": "2Gi"}
            await world.user.delete(core.LIMIT_RANGES, Key(NS, "l"))
            assert await resources() == {"cpu": "500m"}

            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.user.delete(core.RUNTIME_CLASSES, Key("", "kata"))
            assert await resources() == {"cpu": "500m"}, "the group of a job that runs is left as it is"

    play(scenario)


def test_a_runtime_class_is_mapped_to_its_jobs_without_a_look_at_all_others():
    """Ten thousand suspended jobs, and a thousand events of a class that ten of them name."""
    jobs, runtimes = Informer(api.TRAIN_JOBS, Scope()), Informer(api.CLUSTER_TRAINING_RUNTIMES, Scope())
    caches = {api.TRAIN_JOBS: jobs, api.CLUSTER_TRAINING_RUNTIMES: runtimes}
    registry = Registry([CoScheduling()])
    indexes = Indexes(caches, registry.indexes)
    for name in ("plain", "sandboxed"):
        spec = msgspec.json.encode(naming("kata") if name == "sandboxed" else RUNTIME["spec"])
        meta = ObjectMeta(name=name, resource_version="1")
        runtimes.partitions[0].put(
            Key("", name), api.Runtime(kind="ClusterTrainingRuntime", metadata=meta, spec=msgspec.Raw(spec)), 1
        )
    for number in range(10_000):
        ref = api.RuntimeRef(name="plain" if number % 1000 else "sandboxed")
        meta = ObjectMeta(name=f"job-{number}", namespace=NS, resource_version=str(number + 1))
        job = api.TrainJob(metadata=meta, spec=api.TrainJobSpec(runtime_ref=ref, suspend=True))
        jobs.partitions[0].put(job.key, job, number + 1)
    (mapped,) = [watch.concerns for watch in registry.watches if watch.resource is core.RUNTIME_CLASSES]
    keys = MappedKeys(mapped, indexes)
    kata = core.RuntimeClass(metadata=ObjectMeta(name="kata"))

    assert keys(kata) == tuple(Key(NS, f"job-{number}") for number in range(0, 10_000, 1000))
    before_s = process_time()
    for _ in range(1000):
        keys(kata)
    # A look at all jobs takes a millisecond at least; this takes about ten microseconds.
    assert process_time() - before_s < 0.5
