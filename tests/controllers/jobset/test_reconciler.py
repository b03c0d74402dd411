"""The controller at work: on the embedded server, in virtual time, with the Job controller and no kubelet."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import anyio
import msgspec

from ktrain.api import assets
from ktrain.api.core import EVENTS, PODS, SERVICES, untyped
from ktrain.api.jobset import CHILD_JOBS, JOBSETS
from ktrain.api.meta import Key
from ktrain.controllers.jobset import make_controllers
from ktrain.controllers.jobset.admission import default_jobset
from ktrain.framework import Cache, Client, EventRecorder, Manager
from ktrain.framework.errors import NotFound
from ktrain.local.apiserver.admission.chain import AdmissionPlugin, AdmissionResponse
from ktrain.local.apiserver.server import ApiServer
from ktrain.local.jobs import make_controllers as make_job_controllers
from ktrain.testing.faults import FaultTransport
from ktrain.testing.time import simulate

NAMESPACE = "default"
CRDS = [crd for crd in assets.crds() if crd["spec"]["names"]["kind"] == "JobSet"]
ANY_JOBSETS, ANY_JOBS, ANY_EVENTS = untyped(JOBSETS), untyped(CHILD_JOBS), untyped(EVENTS)


@dataclass
class Wire:
    """
    The controller's transport: notes requests, and may send one twice, as a proxy does that lost an answer.

    While there is a `gate`, the JobSets' watch waits for it.
    """

    inner: object
    twice: str = ""
    calls: Counter = field(default_factory=Counter)
    statuses: list = field(default_factory=list)
    gate: anyio.Event | None = None

    async def request(self, method, path, **options):
        _, here, rest = path.partition(f"/namespaces/{NAMESPACE}/")
        if here and not rest.startswith("events"):
            self.calls[method, rest.partition("/")[0]] += 1
        if rest.endswith("/status"):
            self.statuses.append(msgspec.json.decode(options["body"])["status"])
        answer = await self.inner.request(method, path, **options)
        if self.twice and method == "POST" and path.endswith(self.twice):
            answer = await self.inner.request(method, path, **options)
        return answer

    @asynccontextmanager
    async def stream(self, path, **options):
        async with self.inner.stream(path, **options) as stream:
            yield stream._replace(lines=self._lines(stream.lines)) if path.endswith("/jobsets") else stream

    async def _lines(self, lines):
        async for line in lines:
            if self.gate:
                await self.gate.wait()
            yield line

    async def aclose(self):
        await self.inner.aclose()


@dataclass
class World:
    """A running world, seen by its user."""

    env: object
    client: Client
    wire: Wire

    async def create(self, *replicated_jobs, name="js", **spec):
        entries = [{"name": rj} if isinstance(rj, str) else rj for rj in replicated_jobs]
        template = {
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}},
            }
        }
        body = {
            "apiVersion": JOBSETS.api_version,
            "kind": "JobSet",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"replicatedJobs": [{"template": template, **entry} for entry in entries], **spec},
        }
        return await self.client.create(ANY_JOBSETS, body)

    async def until(self, check, *, limit_s=300.0, every_s=0.05):
        """Wait, in virtual time, until an async check gives something."""
        with anyio.fail_after(limit_s):
            while not (found := await check()):
                await self.env.clock.sleep(every_s)
        return found

    async def jobs(self):
        jobs = (await self.client.list(CHILD_JOBS, NAMESPACE)).items
        return {job.metadata.name.removeprefix("js-"): job for job in jobs}

    async def wait_for_jobs(self, *shorts):
        async def there():
            return set(await self.jobs()) == set(shorts)

        await self.until(there)

    async def jobset(self):
        return await self.client.get(ANY_JOBSETS, "js", NAMESPACE)

    async def wait_for_status(self, **wanted):
        async def there():
            status = (await self.jobset()).get("status") or {}
            return all(status.get(key) == value for key, value in wanted.items()) and status

        return await self.until(there)

    async def end(self, short, phase="Succeeded"):
        """Let the pod of a Job end."""

        async def pod():
            pods = (await self.client.list(PODS, NAMESPACE, label_selector=f"job-name=js-{short}")).items
            return next((pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")), None)

        found = await self.until(pod)
        await self.client.patch(PODS, found.key, {"status": {"phase": phase}}, subresource="status")

    async def warnings(self):
        events = (await self.client.list(ANY_EVENTS, NAMESPACE)).items
        return {(event["reason"], event["note"]) for event in events if event["type"] == "Warning"}


def _default(request):
    if request.resource.plural != "jobsets" or request.operation != "CREATE" or request.subresource:
        return None
    return AdmissionResponse(default_jobset(request.object))


@asynccontextmanager
async def running(env, *, twice=""):
    """A control plane with our controller behind a `Wire`."""
    server = ApiServer(env, crds=CRDS, admission=[AdmissionPlugin("defaults", _default, mutating=True)])
    async with server.running(), anyio.create_task_group() as tasks:
        wire = Wire(server.transport(), twice)
        for component, make, transport in (
            ("jobset", make_controllers, wire),
            ("job", make_job_controllers, server.transport()),
        ):
            client = Client(transport, env, field_manager=component)
            cache = Cache(client, env)
            recorder = EventRecorder(client, env, component=component)
            controllers = make(client, cache, env, recorder)
            await tasks.start(Manager(cache=cache, controllers=controllers, recorder=recorder).run)
        yield World(env, Client(server.transport(), env, field_manager="test"), wire)
        tasks.cancel_scope.cancel()


def test_a_life_costs_no_reads_and_no_write_twice():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a", "b")
            await world.end("a-0")
            await world.wait_for_status(
                replicatedJobsStatus=[
                    {"name": "b", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0},
                    {"name": "a", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0},
                ]
            )
            await world.end("b-0")
            await world.wait_for_status(terminalState="Completed")
            await env.clock.sleep(60)
            return world.wire

    wire = simulate(scenario)
    calls = wire.calls

    assert {method for method, _ in calls} == {"POST", "PATCH"}
    assert calls["POST", "services"] == 1
    assert calls["POST", "jobs"] == 2
    assert calls["PATCH", "jobs"] == 0
    assert calls["PATCH", "jobsets"] == len(wire.statuses) <= 7
    assert all(earlier != later for earlier, later in pairwise(wire.statuses))


def test_a_restart_makes_every_job_anew_and_counts_once():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a", "b", failurePolicy={"maxRestarts": 1})
            before = await world.until(lambda: both(world))
            await world.end("a-0", "Failed")
            status = await world.wait_for_status(restarts=1)

            async def replaced():
                now = await both(world)
                return now and not {j.metadata.uid for j in now.values()} & {j.metadata.uid for j in before.values()}

            await world.until(replaced)
            attempts = {j.metadata.labels["jobset.sigs.k8s.io/restart-attempt"] for j in (await world.jobs()).values()}
            return status["restartsCountTowardsMax"], attempts

    async def both(world):
        jobs = await world.jobs()
        return jobs if set(jobs) == {"a-0", "b-0"} else None

    assert simulate(scenario) == (1, {"1"})


def test_a_job_of_somebody_else_blocks_its_slot_with_a_warning_until_it_goes():
    async def scenario(env):
        async with running(env) as world:
            template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
            foreign = {"metadata": {"name": "js-a-0", "namespace": NAMESPACE}, "spec": {"template": template}}
            await world.client.create(ANY_JOBS, {"apiVersion": "batch/v1", "kind": "Job", **foreign})
            await world.create({"name": "a", "replicas": 2}, "b")
            await world.wait_for_jobs("a-0", "a-1")
            warnings = await world.until(world.warnings)
            untouched = "status" not in await world.jobset()
            await world.client.delete(CHILD_JOBS, Key(NAMESPACE, "js-a-0"), propagation="Background")
            await world.wait_for_jobs("a-0", "a-1", "b-0")
            return warnings, untouched

    text = 'job "js-a-0" creation failed with error: jobs.batch "js-a-0" already exists'
    assert simulate(scenario) == ({("JobCreationFailed", text)}, True)


def test_a_service_of_somebody_else_under_its_subdomain_is_known_and_left_as_it_is():
    async def scenario(env):
        async with running(env) as world:
            foreign = {"metadata": {"name": "js", "namespace": NAMESPACE}, "spec": {"clusterIP": "None"}}
            await world.client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", **foreign})
            await env.clock.sleep(1)
            await world.create("a")
            await world.wait_for_jobs("a-0")
            found = await world.client.get(SERVICES, "js", NAMESPACE)
            return world.wire.calls["POST", "services"], found.metadata.owner_references

    assert simulate(scenario) == (0, ())


def test_a_job_that_exists_because_an_answer_was_lost_is_ours_and_no_failure():
    async def scenario(env):
        async with running(env, twice="/jobs") as world:
            await world.create("a", "b")
            await world.wait_for_status(restarts=0)
            return set(await world.jobs()), await world.warnings()

    assert simulate(scenario) == ({"a-0", "b-0"}, set())


def test_a_job_that_is_refused_keeps_later_ones_from_being_made():
    async def scenario(env):
        async with running(env) as world:
            bad = {"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}}
            await world.create("a", {"name": "bad", "template": bad}, "late")
            warnings = await world.until(world.warnings)
            return {reason for reason, _ in warnings}, set(await world.jobs())

    assert simulate(scenario) == ({"JobCreationFailed"}, {"a-0"})


def test_a_jobset_managed_by_others_is_never_written():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a", managedBy="example.com/other")
            await env.clock.sleep(60)
            return dict(world.wire.calls)

    assert simulate(scenario) == {}


def test_a_finished_jobset_goes_when_its_time_to_live_is_over():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a", ttlSecondsAfterFinished=3600)
            await world.end("a-0")
            await world.wait_for_status(terminalState="Completed")
            ended_s = env.clock.monotonic()

            async def gone():
                try:
                    await world.jobset()
                except NotFound:
                    return True
                return False

            await world.until(gone, limit_s=7200, every_s=5)
            return round(env.clock.monotonic() - ended_s, -1), await world.jobs()

    assert simulate(scenario) == (3600, {})


def test_suspending_and_resuming_keeps_the_jobs_and_brings_the_new_template():
    async def scenario(env):
        async with running(env) as world:
            made = await world.create("a", suspend=True)
            await world.wait_for_jobs("a-0")
            await world.wait_for_status(restarts=0)
            uid = (await world.jobs())["a-0"].metadata.uid
            rjs = made["spec"]["replicatedJobs"]
            pod = rjs[0]["template"]["spec"]["template"]["spec"]
            pod.update(nodeSelector={"zone": "x"}, tolerations=[{"key": "k", "operator": "Exists"}])
            patch = {"spec": {"replicatedJobs": rjs, "suspend": False}}
            await world.client.patch(ANY_JOBSETS, Key(NAMESPACE, "js"), patch)

            async def awake():
                job = await world.client.get(ANY_JOBS, "js-a-0", NAMESPACE)
                return job if job["spec"]["suspend"] is False else None

            job = await world.until(awake)
            pod = job["spec"]["template"]["spec"]
            return job["metadata"]["uid"] == uid, pod["nodeSelector"], pod["tolerations"]

    assert simulate(scenario) == (True, {"zone": "x"}, [{"key": "k", "operator": "Exists"}])


def test_a_job_that_cannot_be_resumed_keeps_later_ones_asleep_and_is_told_until_it_can():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a", "b", "c", suspend=True)
            await world.wait_for_jobs("a-0", "b-0", "c-0")
            faults = world.wire.inner = FaultTransport(world.wire.inner, env)
            with faults.on("patch", CHILD_JOBS, name="js-b-0").answer(403, reason="Forbidden", message="you may not"):
                await world.client.patch(ANY_JOBSETS, Key(NAMESPACE, "js"), {"spec": {"suspend": False}})
                await env.clock.sleep(30)
                warnings, half = await world.warnings(), await world.jobs()
            await env.clock.sleep(60)
            whole = await world.jobs()
            return warnings, [[jobs[name].spec.suspend for name in sorted(jobs)] for jobs in (half, whole)]

    warnings, asleep = simulate(scenario)
    assert warnings == {("ReconcileFailed", 'job "js-b-0" resumption failed with error: you may not')}
    assert asleep == [[False, True, True], [False, False, False]]


def test_a_job_without_its_attempt_is_told_to_the_user_and_work_goes_on_when_it_is_repaired():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a")
            await world.wait_for_status(restarts=0)
            label = "jobset.sigs.k8s.io/restart-attempt"
            key = Key(NAMESPACE, "js-a-0")
            await world.client.patch(ANY_JOBS, key, {"metadata": {"labels": {label: None}}})
            warnings = await world.until(world.warnings)
            await world.client.patch(ANY_JOBS, key, {"metadata": {"labels": {label: "0"}}})
            await world.end("a-0")
            await world.wait_for_status(terminalState="Completed")
            return warnings

    ((reason, text),) = simulate(scenario)

    assert reason == "ReconcileFailed"
    assert "js-a-0" in text


def test_other_fields_of_the_status_survive_ours():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a")
            await world.wait_for_status(restarts=0)
            patch = {"status": {"currentInPlaceRestartAttempt": 3}}
            await world.client.patch(ANY_JOBSETS, Key(NAMESPACE, "js"), patch, subresource="status")
            await world.end("a-0")
            status = await world.wait_for_status(terminalState="Completed")
            return status["currentInPlaceRestartAttempt"]

    assert simulate(scenario) == 3


def test_a_restart_is_not_counted_by_a_decision_that_is_behind():
    async def scenario(env):
        async with running(env) as world:
            await world.create("a", failurePolicy={"maxRestarts": 9})
            await world.wait_for_jobs("a-0")
            world.wire.gate = anyio.Event()
            counts = {"restarts": 5, "restartsCountTowardsMax": 5}
            await world.client.patch(ANY_JOBSETS, Key(NAMESPACE, "js"), {"status": counts}, subresource="status")
            await world.end("a-0", "Failed")
            await env.clock.sleep(30)
            behind = (await world.jobset())["status"]
            world.wire.gate.set()
            await world.wait_for_jobs("a-0")
            await env.clock.sleep(30)
            return world.wire.statuses, behind, (await world.jobset())["status"]

    sent, behind, after = simulate(scenario)

    assert any(status["restarts"] == 1 for status in sent)
    assert (behind["restarts"], after["restarts"], after["restartsCountTowardsMax"]) == (5, 5, 5)
