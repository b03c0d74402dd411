"""A world with JobSets: the controller that may die, and beside it a Job controller and a kubelet that do not."""

from ktrain.api import assets
from ktrain.api.core import PODS, untyped
from ktrain.api.jobset import CHILD_JOBS, JOBSETS
from ktrain.api.meta import Key
from ktrain.controllers.jobset import Gates, make_controllers
from ktrain.controllers.jobset.admission import default_jobset
from ktrain.framework import Cache, Client, EventRecorder, Manager
from ktrain.framework.errors import Conflict, NotFound
from ktrain.local.jobs import make_controllers as make_job_controllers

CRDS = [crd for crd in assets.crds() if crd["spec"]["names"]["kind"] == "JobSet"]
ANY_JOBSETS, ANY_PODS = untyped(JOBSETS), untyped(PODS)
KEY = Key("default", "js")
ATTEMPT, JOB_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt", "jobset.sigs.k8s.io/job-restart-attempt"
ENDED = ("Succeeded", "Failed")


def jobset_controller(gates):
    """The program under test."""

    async def main(transport, env):
        client = Client(transport, env, field_manager="jobset")
        cache = Cache(client, env)
        recorder = EventRecorder(client, env, component="jobset")
        controllers = make_controllers(client, cache, env, recorder, gates=gates)
        await Manager(cache=cache, controllers=controllers, recorder=recorder).run()

    return main


async def job_controller(transport, env):
    """Makes pods of Jobs."""
    client = Client(transport, env, field_manager="jobs")
    cache = Cache(client, env)
    recorder = EventRecorder(client, env, component="job-controller")
    controllers = make_job_controllers(client, cache, env, recorder)
    await Manager(cache=cache, controllers=controllers, recorder=recorder).run()


def kubelet(outcome):
    """Brings each pod to the phase that `outcome(pod)` says, ready if it runs, and removes what is to be deleted."""

    async def main(transport, env):
        client = Client(transport, env, field_manager="kubelet")
        while True:
            for pod in (await client.list(PODS, KEY.namespace)).items:
                phase = outcome(pod)
                try:
                    if pod.metadata.deletion_timestamp is not None:
                        await client.delete(PODS, pod.key, grace_period_s=0)
                    elif pod.status.phase not in (*ENDED, phase):
                        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
                        status = {"status": {"phase": phase, "conditions": [ready]}}
                        await client.patch(PODS, pod.key, status, subresource="status")
                except (NotFound, Conflict):
                    continue
            await env.clock.sleep(0.5)

    return main


async def create(world, *replicated_jobs, name=KEY.name, **spec):
    """Create the JobSet `js`, or of another name; a replicated job is a name, or a dict without its template."""
    entries = [{"name": rj} if isinstance(rj, str) else rj for rj in replicated_jobs]
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    template = {"spec": {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": pod}}
    body = {
        "apiVersion": JOBSETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": KEY.namespace},
        "spec": {"replicatedJobs": [{"template": template, **entry} for entry in entries], **spec},
    }
    await world.client.create(ANY_JOBSETS, default_jobset(body))


def start(world, outcome, *, gates=None, crash=None):
    """Start everybody; returns the process of the JobSet controller."""
    world.start(job_controller, name="jobs")
    world.start(kubelet(outcome), name="kubelet")
    world.always(one_generation_in_a_slot)
    return world.start(jobset_controller(gates or Gates()), crash=crash)


def status(world):
    """The status of the JobSet; empty without one."""
    return next((found.get("status") or {} for found in world.objects(JOBSETS)), {})


def conditions(world):
    """Types of the conditions that are True."""
    return {one["type"] for one in status(world).get("conditions", []) if one["status"] == "True"}


def attempts(world):
    """Restart attempt, and attempt of its own, of each Job."""
    found = {}
    for job in world.objects(CHILD_JOBS):
        labels = job["metadata"]["labels"]
        found[job["metadata"]["name"].removeprefix("js-")] = labels[ATTEMPT], labels.get(JOB_ATTEMPT)
    return found


def one_generation_in_a_slot(world):
    """Two generations of one pod never run at once."""
    running = {}
    for pod in world.objects(PODS):
        metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        if phase in ENDED:
            continue
        slot = metadata["name"].rpartition("-")[0]
        generation = metadata["labels"][ATTEMPT], metadata["labels"].get(JOB_ATTEMPT)
        other = running.setdefault(slot, generation)
        assert other == generation, f"{slot} runs as {other} and as {generation}"
