"""A world with TrainJobs: the controller that may die, and a JobSet controller that does not, played from a script."""

from collections import defaultdict

from ktrain.api import assets
from ktrain.api.core import CONFIG_MAP_METADATA, CONFIG_MAPS, SECRETS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, owner_reference
from ktrain.api.trainer import ANCESTOR_LABEL, API_VERSION, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.controllers import trainjob
from ktrain.framework import Cache, Client, EventRecorder, LeaderElection, Manager
from ktrain.framework.errors import NotFound
from ktrain.pipeline import Component, Registry

CRDS = [*assets.crds(), *assets.pod_group_crds()]
NAMESPACE = "default"
TICK_S = 0.5


class Board:
    """A plugin whose ConfigMap for the job `held` is written after the JobSet, and follows it until it has ended."""

    name = "Board"
    after = ("JobSet",)

    def build(self, info, ctx):
        meta = info.job.metadata
        if meta.name != "held":
            return ()
        owners = [owner_reference(API_VERSION, "TrainJob", meta.name, meta.uid)]
        metadata = {"name": "held-board", "namespace": meta.namespace, "ownerReferences": owners}
        data = {"suspended": str(info.job.is_suspended)}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return (Component(CONFIG_MAP_METADATA, body),)


REGISTRY = Registry((*Registry.load().plugins, Board()))
ENDS = ("Complete", "Failed")
OUT_OF_TIME = [("Failed", "DeadlineExceeded")]


def operator(*, elected=False, workers=16):
    """The program under test: `ktrain operator` without what surrounds it."""

    async def main(transport, env):
        election = guard = None
        if elected:
            identity = str(env.random.random())
            own = Client(transport, env, field_manager="election")
            election = LeaderElection(own, env, name="trainer", namespace=NAMESPACE, identity=identity)
            guard = election.guard
        client = Client(transport, env, field_manager="trainer", guard=guard)
        cache = Cache(client, env)
        recorder = EventRecorder(client, env, component="trainer")
        registry = await trainjob.without_unserved(REGISTRY, client)
        controller = trainjob.make_controller(client, cache, env, recorder, registry, max_concurrent_reconciles=workers)
        await Manager(cache=cache, controllers=[controller], recorder=recorder, leader_election=election).run()

    return main


# What users do


def _job(name, **labels):
    template = {"spec": {"containers": [{"name": "node", "image": "none"}], "restartPolicy": "Never"}}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": template}}}


_TRAINER = {ANCESTOR_LABEL: "trainer"}
_RUNTIMES = {
    "torch": ({"numNodes": 2, "torch": {}}, [_job("node", **_TRAINER)]),
    "mpi": ({"numNodes": 2, "mpi": {"mpiImplementation": "OpenMPI"}}, [_job("node"), _job("launcher", **_TRAINER)]),
}


async def runtimes(world):
    for name, (policy, jobs) in _RUNTIMES.items():
        spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}
        await world.client.create(untyped(TRAINING_RUNTIMES), _object(TRAINING_RUNTIMES, name, spec))


async def create(world, *names, runtime="torch", **spec):
    for name in names:
        ref = {"runtimeRef": {"name": runtime, "kind": "TrainingRuntime"}}
        await world.client.create(TRAIN_JOBS, _object(TRAIN_JOBS, name, ref | spec))


def _object(resource, name, spec):
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def suspend(world, name, *, to):
    await world.client.patch(TRAIN_JOBS, Key(NAMESPACE, name), {"spec": {"suspend": to}})


async def delete(world, name):
    await world.client.delete(TRAIN_JOBS, Key(NAMESPACE, name))


async def life(world):
    """Jobs that end, are suspended and resumed, run out of time, are deleted, and made again under their names."""
    pause = world.env.clock.sleep
    await create(world, "first")  # the first snapshot of a namespace goes alone
    await pause(1)
    await create(world, "plain", "again")
    await create(world, "mpi", runtime="mpi")
    await create(world, "held", suspend=True)
    await create(world, "endless", activeDeadlineSeconds=9)
    await pause(4)
    await delete(world, "again")
    await create(world, "again")
    await suspend(world, "held", to=False)
    await pause(1)
    await suspend(world, "held", to=True)
    await pause(4)
    await suspend(world, "held", to=False)


# What the JobSet controller does


def play_job_sets(world):
    """Bring JobSets on by one step each tick: active, ready, completed; `endless` ones stay as they are."""

    async def main(_transport, env):
        while True:
            for job_set in list(world.objects(JOBSETS)):
                name, status = job_set["metadata"]["name"], _next(job_set)
                if status is not None:
                    try:
                        await world.client.patch(
                            JOBSETS, Key(NAMESPACE, name), {"status": status}, subresource="status"
                        )
                    except NotFound:
                        continue
            await env.clock.sleep(TICK_S)

    return main


def _next(job_set):
    status = job_set.get("status", {})
    if status.get("conditions"):
        return None
    counters = (status.get("replicatedJobsStatus") or [{}])[0]
    zeros = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
    if job_set["spec"].get("suspend"):
        step = {"suspended": 1}
    elif not counters.get("active"):
        step = {"active": 1}
    elif not counters.get("ready"):
        step = {"active": 1, "ready": 1}
    elif job_set["metadata"]["name"].startswith("endless"):
        return None
    else:
        step = {"succeeded": 1}
    wanted = {"name": "node", **zeros, **step}
    if counters == wanted:
        return None
    done = {"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "done"}
    conditions = [done | {"lastTransitionTime": "2030-01-01T00:00:00Z"}] if "succeeded" in step else []
    return {"replicatedJobsStatus": [wanted], "restarts": 0, "conditions": conditions}


# What must hold


class OneChildEach:
    """An invariant: no TrainJob ever has a second JobSet, other keys, or another end, and none after its end."""

    def __init__(self):
        self.job_sets = defaultdict(set)
        self.keys = {}
        self.ends = {}

    def __call__(self, world):
        for found in world.objects(JOBSETS):
            (owner,) = found["metadata"]["ownerReferences"]
            uid, known = found["metadata"]["uid"], self.job_sets[owner["uid"]]
            assert uid in known or owner["uid"] not in self.ends, f"{owner['name']} got a JobSet after its end"
            known.add(uid)
            assert len(known) == 1, f"{owner['name']} got a second JobSet"
        for found in world.objects(SECRETS):
            owner = found["metadata"]["ownerReferences"][0]["uid"]
            assert self.keys.setdefault(owner, found["data"]) == found["data"], "keys were generated twice"
        for found in world.objects(TRAIN_JOBS):
            ended = ends(found)
            uid, name = found["metadata"]["uid"], found["metadata"]["name"]
            assert len(ended) <= 1, f"{name} has ended twice"
            assert not self.ends.get(uid) or self.ends[uid] == ended, (
                f"{name} ended as {self.ends[uid]}, now as {ended}"
            )
            if ended:
                self.ends[uid] = ended


def ends(job):
    """How a TrainJob ended: type and reason of its condition."""
    conditions = job.get("status", {}).get("conditions", [])
    return [(c["type"], c["reason"]) for c in conditions if c["type"] in ENDS and c["status"] == "True"]


def has_ended(world, *names):
    found = {job["metadata"]["name"]: ends(job) for job in world.objects(TRAIN_JOBS)}
    return all(found.get(name) for name in names)


def end_state(world):
    """What is left at the end, without times and whatever is drawn by lot."""
    jobs = {}
    for job in world.objects(TRAIN_JOBS):
        # What ran out of time may have been made and seen to run before, or not.
        counters = None if ends(job) == OUT_OF_TIME else job["status"].get("jobsStatus")
        jobs[job["metadata"]["name"]] = ends(job), counters, job["status"].get("diagnosis")
    # A late suspension may reach a JobSet only when that has ended.
    specs = {found["metadata"]["name"]: found["spec"] | {"suspend": None} for found in world.objects(JOBSETS)}
    others = {found["metadata"]["name"] for kind in (CONFIG_MAPS, SECRETS) for found in world.objects(kind)}
    return jobs, specs, others - {"endless-runtime-snapshot"}
