"""
TrainJobs in bad weather: what the tests of `test_weather_*.py` need.

The controller works through a fault proxy, between sockets; the test itself is the user, the JobSet controller and, to
be quick, the garbage collector, on connections of its own. Only calls for the test's own namespace are counted: other
tests may have left jobs behind on a real server, and their ends are no business of this one.
"""

import asyncio
from contextlib import suppress

import msgspec

from ktrain.api.core import CONFIG_MAPS, SECRETS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, is_condition_true
from ktrain.api.trainer import ANCESTOR_LABEL, API_VERSION, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.framework.errors import NotFound

from ..waiting import until

TORCH, MPI = "torch", "mpi"
KEYS_OF = "{}-mpi-ssh-auth"
"""The name of the Secret that an MPI job has."""
ENDS = {"Completed": "Complete", "Failed": "Failed"}


class Weather:
    """A namespace, the proxy in front of its controller, and what is seen of both."""

    def __init__(self, plane, proxy, operator):
        self.plane = plane
        self.proxy = proxy
        self.operator = operator
        """`async with weather.operator():` runs the controller."""
        self.client = plane.client()
        self.no_ops = []
        """Writes that changed nothing, once `look_for_no_ops` was called."""

    # What users do

    async def create_runtimes(self):
        launcher = job("launcher", **{ANCESTOR_LABEL: "trainer"})
        policies = {
            TORCH: ({"numNodes": 2, "torch": {}}, [job("node", **{ANCESTOR_LABEL: "trainer"})]),
            MPI: ({"numNodes": 2, "mpi": {"mpiImplementation": "OpenMPI"}}, [job("node"), launcher]),
        }
        for name, (policy, jobs) in policies.items():
            spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}
            await self.client.create(untyped(TRAINING_RUNTIMES), self._object(TRAINING_RUNTIMES, name, spec))

    async def create(self, *names, runtime=TORCH, **spec):
        """Create TrainJobs; returns when each was sent, by name, in seconds of the monotonic clock."""
        sent = {}
        for name in names:
            sent[name] = self.now()
            spec = {"runtimeRef": {"name": runtime, "kind": "TrainingRuntime"}, **spec}
            await self.client.create(TRAIN_JOBS, self._object(TRAIN_JOBS, name, spec))
        return sent

    async def change(self, name, resource=TRAIN_JOBS, **fields):
        await self.client.patch(resource, self.key(name), fields)

    async def delete(self, name, resource=TRAIN_JOBS):
        with suppress(NotFound):
            await self.client.delete(resource, self.key(name), propagation="Background")

    async def collect(self, name):
        """Do what the garbage collector will do after the end of a TrainJob, and may take half a minute for."""
        await self.delete(name, JOBSETS)
        await self.delete(f"{name}-runtime-snapshot", CONFIG_MAPS)

    # What the JobSet controller does

    async def progress(self, *names, ended=None, **counters):
        """Give JobSets counters, and a condition if they have `ended`."""
        zeros = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        status = {"replicatedJobsStatus": [{"name": "node", **zeros, **counters}], "restarts": 0}
        if ended:
            entry = {"type": ended, "status": "True", "reason": "Because", "message": "it is so"}
            status["conditions"] = [entry | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]
        for name in names:
            await self.client.patch(JOBSETS, self.key(name), {"status": status}, subresource="status")

    # What there is

    def key(self, name):
        return Key(self.plane.namespace, name)

    def now(self):
        return self.plane.env.clock.monotonic()

    async def job(self, name="job"):
        return await self.client.get(TRAIN_JOBS, name, self.plane.namespace)

    async def job_set(self, name="job"):
        """Return the JobSet of this name; None if there is none."""
        with suppress(NotFound):
            return await self.client.get(JOBSETS, name, self.plane.namespace)

    async def keys(self, name):
        """Return the SSH keys of an MPI job."""
        return (await self.client.get(untyped(SECRETS), KEYS_OF.format(name), self.plane.namespace))["data"]

    async def until_job_sets(self, *names, where=lambda _found: True):
        """Wait until each of these jobs has a JobSet that is as wanted; returns the last one."""
        for name in names:
            found = await self.plane.wait_for(JOBSETS, name, lambda found: found is not None and where(found))
        return found

    async def until_status(self, *names, where):
        """Wait until the status of each of these jobs is as wanted; returns the last job."""
        for name in names:
            found = await self.plane.wait_for(TRAIN_JOBS, name, lambda found: where(found.status))
        return found

    async def until_ended(self, *names, how="Complete"):
        return await self.until_status(*names, where=lambda status: is_condition_true(status.conditions, how))

    async def live(self, *names):
        """Bring jobs that have JobSets to their ends, through all that is usual."""
        await self.progress(*names, active=1)
        await self.progress(*names, active=1, ready=1)
        await self.until_status(*names, where=lambda status: status.jobs_status and status.jobs_status[0].ready)
        await self.progress(*names, ended="Completed", succeeded=1)
        await self.until_ended(*names)

    # What the controller did

    def is_ours(self, call):
        """Whether the controller wanted to write something in this namespace; events and dry runs are nothing."""
        return (
            "write" in call.verbs
            and call.route is not None
            and call.route.namespace == self.plane.namespace
            and call.route.plural not in ("events", "leases")
            and "dryRun" not in call.parameters
        )

    def writes(self, verb="write", resource=None, *, name=None, since_s=0.0):
        return self.proxy.calls(verb, resource, name=name, since_s=since_s, where=self.is_ours)

    def on(self, verb="write", resource=None, **more):
        """Like `proxy.on`, for calls in this namespace."""
        return self.proxy.on(verb, resource, namespace=self.plane.namespace, **more)

    def look_for_no_ops(self):
        """From now on compare objects before and after each write."""

        async def effect(call, send):
            path = call.path.removesuffix("/status")
            before = await self.plane.transport.request("GET", path)
            answer = await send()
            if answer.status < 300 and version(before) == version(answer):
                self.no_ops.append(str(call))
            return answer

        self.proxy.on(where=lambda call: self.is_ours(call) and call.method in ("PATCH", "PUT")).do(effect)

    async def quiet(self, seconds=1.0):
        """Wait until the controller has written nothing for so long."""
        count = -1
        while count != (count := len(self.writes())):  # noqa: ASYNC110 - it is the absence of calls that is waited for
            await asyncio.sleep(seconds)

    def _object(self, resource, name, spec):
        metadata = {"name": name, "namespace": self.plane.namespace}
        return {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def idle(controllers):
    """Wait until these controllers have done all that there is to do, as far as they know."""

    def left():
        return [key for controller in controllers for key in controller.dump() if key.state != "waiting"]

    await until(left, lambda keys: not keys)


def job(name, **labels):
    """Build a replicated job of a runtime."""
    template = {"spec": {"containers": [{"name": "node", "image": "none"}], "restartPolicy": "Never"}}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": template}}}


def version(answer):
    """Return the resource version of the object in an answer."""
    return msgspec.json.decode(answer.body)["metadata"].get("resourceVersion")
