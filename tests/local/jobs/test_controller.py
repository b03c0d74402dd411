"""The Job controller's writes against the embedded server, with a cache that may lag: it shows what a test shows it."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key
from ktrain.framework import Client, EventRecorder
from ktrain.framework.cache.informer import Informer, Scope
from ktrain.framework.env import Env, SystemClock, system_env
from ktrain.framework.errors import Conflict
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.jobs import Tuning
from ktrain.local.jobs.claims import Claims
from ktrain.local.jobs.controller import JobReconciler
from ktrain.local.jobs.types import JOBS, TRACKING_FINALIZER

KEY = Key("default", "j")


@dataclass
class World:
    client: Client
    reconciler: JobReconciler
    jobs: Informer
    pods: Informer

    async def show(self, *informers):
        """Let the cache see everything as it is now."""
        for informer in informers or (self.jobs, self.pods):
            found = await self.client.list(informer.resource)
            await informer.partitions[0].replace({obj.key: obj for obj in found.items}, int(found.resource_version))

    async def run(self):
        """One pass of the controller, which then sees what it did."""
        await self.reconciler.reconcile(KEY)
        await self.show()

    async def job(self):
        return await self.client.get(JOBS, KEY.name, KEY.namespace)

    async def end_pod(self, phase="Failed"):
        [pod, *_] = [pod for pod in self.pods.list() if TRACKING_FINALIZER in pod.metadata.finalizers]
        return await self.client.patch(PODS, pod.key, {"status": {"phase": phase}}, subresource="status")


@pytest.fixture
async def world():
    env = system_env()
    client = Client(ApiServer(env).transport(), env, field_manager="test")
    jobs, pods = Informer(JOBS, Scope()), Informer(PODS, Scope())
    recorder = EventRecorder(client, env, component="test")
    reconciler = JobReconciler(client, env, recorder, jobs, Claims(client, jobs, pods), Tuning(backoff_base_s=0.0))
    world = World(client, reconciler, jobs, pods)
    await client.create(JOBS, job_body())
    await world.show()
    await world.run()
    return world


def job_body():
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template},
    }


async def test_a_pass_that_records_and_counts_writes_the_status_twice(world):
    await world.end_pod()
    await world.show()

    await world.run()

    status = (await world.job()).status
    assert (status.failed, status.uncounted_terminated_pods.failed) == (1, ())


async def test_a_status_that_was_decided_on_an_old_version_is_not_written(world):
    await world.end_pod()
    await world.show()
    await world.reconciler.reconcile(KEY)
    await world.show(world.pods)  # the cache of Jobs lags: the first failure is not counted there
    await world.end_pod()
    await world.show(world.pods)

    with pytest.raises(Conflict):
        await world.reconciler.reconcile(KEY)
    await world.show()
    await world.run()

    assert (await world.job()).status.failed == 2


async def test_a_finalizer_that_came_after_the_cache_saw_the_pod_is_not_removed_with_the_tracking_one(world):
    ended = await world.end_pod()
    await world.show()
    guarded = {"metadata": {"finalizers": [*ended.metadata.finalizers, "example.com/guard"]}}
    await world.client.patch(PODS, ended.key, guarded)

    await world.reconciler.reconcile(KEY)

    stored = await world.client.get(PODS, ended.key.name, "default")
    assert stored.metadata.finalizers == ("example.com/guard",)


async def test_a_jobs_failures_are_forgotten_with_it_although_the_cache_never_saw_it_being_deleted(world):
    await world.end_pod()
    await world.show()
    await world.run()
    assert world.reconciler._backoff

    world.jobs.partitions[0].remove(KEY, None, 1000)
    await world.reconciler.reconcile(KEY)

    assert not world.reconciler._backoff


async def test_a_new_job_of_the_same_name_does_not_wait_for_the_failures_of_the_old_one(world):
    world.reconciler._tuning = Tuning()
    await world.end_pod()
    await world.show()
    waiting = await world.reconciler.reconcile(KEY)
    assert waiting is not None

    await world.client.delete(JOBS, KEY, propagation="Background")
    await world.client.create(JOBS, job_body())
    await world.show()
    await world.run()

    assert len([p for p in world.pods.list() if p.metadata.is_controlled_by((await world.job()).metadata.uid)]) == 1


async def test_a_job_whose_pods_are_refused_starts_all_the_same_and_is_tried_again_later_and_later(world):
    body = job_body()
    body["metadata"]["name"] = "k"
    body["spec"]["template"]["spec"]["priorityClassName"] = "nobody-made-it"
    await world.client.create(JOBS, body)
    await world.show()

    waits = []
    for _ in range(3):
        waits.append((await world.reconciler.reconcile(Key("default", "k"))).requeue_after_s)
        await world.show()

    job = await world.client.get(JOBS, "k", "default")
    assert waits == [0.25, 0.5, 1.0]
    assert job.status.start_time is not None
    assert job.status.active == 0


class Standing(SystemClock):
    """A clock that stands."""

    def __init__(self, now):
        self._now = now

    def now(self):
        return self._now


async def test_a_finished_job_without_time_to_live_stays_until_its_end_can_have_been_seen(world):
    await world.end_pod("Succeeded")
    for _ in range(3):
        await world.show()
        await world.run()
    [end] = [c.last_transition_time for c in (await world.job()).status.conditions if c.type == "Complete"]
    await world.client.patch(JOBS, KEY, {"spec": {"ttlSecondsAfterFinished": 0}})
    await world.show()

    world.reconciler._env = Env(Standing(end + timedelta(milliseconds=900)))
    assert (await world.reconciler.reconcile(KEY)).requeue_after_s == pytest.approx(0.1)

    world.reconciler._env = Env(Standing(end + timedelta(seconds=1)))
    assert await world.reconciler.reconcile(KEY) is None
    assert (await world.job()).metadata.deletion_timestamp is not None
