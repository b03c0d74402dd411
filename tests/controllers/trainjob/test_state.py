"""The state of a TrainJob in a word: its rules, and that it costs no writes of its own."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.api.crds import all_crds
from ktrain.api.meta import Condition, ObjectMeta, OwnerReference
from ktrain.controllers.kueue import QUEUE_LABEL
from ktrain.controllers.trainjob.elastic import UNSUPPORTED
from ktrain.controllers.trainjob.state import with_stall, with_state
from ktrain.plugins.jobset import JobSetState
from ktrain.plugins.jobset.state import (
    JobSetStateSpec,
    JobSpecState,
    JobTemplateState,
    LabelledMeta,
    PodTemplateState,
    ReplicatedJobState,
    StepLabel,
)

from .world import World, play

RESTARTING = Condition("RestartingJobSet", "True", "Restarting")


def meta(**labels: str) -> ObjectMeta:
    owner = OwnerReference(kind="TrainJob", name="job", uid="uid", controller=True)
    return ObjectMeta(name="job", namespace="team", uid="uid", owner_references=(owner,), labels=labels)


def rjob(name: str, pods: int, replicas: int = 1, *, label: str = "", pod_label: str = "") -> ReplicatedJobState:
    pod = PodTemplateState(LabelledMeta(StepLabel(pod_label)))
    template = JobTemplateState(LabelledMeta(StepLabel(label)), JobSpecState(pods, pods, pod))
    return ReplicatedJobState(name, template, replicas)


DATA, NODE = rjob("data", 1, label="dataset-initializer"), rjob("node", 4, label="trainer")


def job_set(
    *jobs: ReplicatedJobState, suspend: bool = False, conditions=(), restarts: int = 0, **counters: dict[str, int]
) -> JobSetState:
    """A JobSet of the job; without counters it has no status."""
    counted = tuple(jobset.ReplicatedJobStatus(name, **numbers) for name, numbers in counters.items())
    status = jobset.JobSetStatus(tuple(conditions), restarts, replicated_jobs_status=counted) if counted else None
    return JobSetState(metadata=meta(), spec=JobSetStateSpec(suspend, jobs or (NODE,)), status=status)


def stated(child: JobSetState | None, *, suspend: bool = False, shown=None, labels=None, **status) -> str:
    """The state of a job of which `status` is known, and whose status shows `shown`."""
    job = api.TrainJob(metadata=meta(**(labels or {})), spec=api.TrainJobSpec(suspend=suspend))
    before = shown or api.TrainJobStatus()
    found = with_state(replace(before, **status), replace(job, status=before), child)
    return with_stall(found).state


RUNNING = job_set(node={"ready": 1, "active": 1})
STARTING = job_set(node={"active": 1})
AFTER = replace(rjob("evaluate", 1), depends_on=(jobset.DependsOn("node", "Complete"),))
SHOWN_RUNNING = api.TrainJobStatus(state="Running", restarts=0)
SHOWN_RESTARTING = api.TrainJobStatus(state="Restarting", restarts=1)
WAITS = api.Diagnosis("Unschedulable", "no room")


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("Pending", stated(None)),
        ("Pending", stated(job_set())),
        ("Pending", stated(job_set(node={}))),
        ("Pending", stated(job_set(suspend=True, node={"suspended": 1}))),
        ("Pending", stated(job_set(suspend=True, node={"suspended": 1}), shown=api.TrainJobStatus(state="Suspended"))),
        ("Suspended", stated(RUNNING, suspend=True)),
        ("Queued", stated(RUNNING, suspend=True, labels={QUEUE_LABEL: "q"})),
        ("Starting", stated(STARTING)),
        ("Starting", stated(STARTING, labels={QUEUE_LABEL: "q"})),
        ("Starting", stated(job_set(DATA, NODE, data={"active": 1, "ready": 1}, node={}))),
        ("Starting", stated(job_set(DATA, NODE, data={"succeeded": 1}, node={}))),
        ("Running", stated(RUNNING)),
        ("Running", stated(job_set(DATA, NODE, data={"succeeded": 1}, node={"ready": 1, "active": 1}))),
        (
            "Running",
            stated(job_set(rjob("launcher", 1), rjob("node", 2), launcher={"succeeded": 1}, node={"ready": 1})),
        ),
        ("Running", stated(job_set(restarts=2, node={"ready": 1}), shown=SHOWN_RESTARTING)),
        ("Running", stated(job_set(NODE, AFTER, node={"ready": 1, "active": 1}, evaluate={}))),
        (
            "Running",
            stated(
                job_set(NODE, AFTER, node={"succeeded": 1}, evaluate={"active": 1}),
                shown=replace(SHOWN_RUNNING, nodes=api.Nodes(4, 5)),
            ),
        ),
        ("Restarting", stated(STARTING, shown=SHOWN_RUNNING)),
        ("Restarting", stated(job_set(restarts=1, node={}), shown=api.TrainJobStatus(state="Starting", restarts=0))),
        ("Restarting", stated(job_set(restarts=1, node={"active": 1}), shown=SHOWN_RESTARTING)),
        ("Restarting", stated(job_set(conditions=[RESTARTING], node={"ready": 1, "active": 1}), shown=SHOWN_RUNNING)),
        ("Stalled", stated(None, diagnosis=WAITS)),
        ("Stalled", stated(STARTING, diagnosis=WAITS)),
        ("Stalled", stated(STARTING, diagnosis=WAITS, shown=SHOWN_RUNNING)),
        ("Running", stated(RUNNING, diagnosis=WAITS)),
        ("Suspended", stated(RUNNING, diagnosis=WAITS, suspend=True)),
        ("Starting", stated(STARTING, diagnosis=api.Diagnosis(UNSUPPORTED, "goes on with 2"))),
        ("Complete", stated(RUNNING, conditions=(Condition("Complete", "True"),))),
        ("Failed", stated(None, conditions=(Condition("Failed", "True"),), diagnosis=WAITS, suspend=True)),
    ],
)
def test_each_state_is_as_its_rule_says(expected, found):
    assert expected == found


def test_a_jobset_of_another_owner_says_nothing_of_the_state():
    foreign = replace(RUNNING, metadata=ObjectMeta(name="job", namespace="team", uid="other"))

    assert stated(foreign) == "Pending"


@pytest.mark.parametrize("label", ["label", "pod_label"])
def test_nodes_are_the_pods_of_all_steps_but_the_initializers_and_count_when_their_job_is_ready(label):
    data = rjob("data", 3, **{label: "model-initializer"})
    child = job_set(data, rjob("node", 4, replicas=2), data={"ready": 1}, node={"ready": 1, "active": 2})

    found = with_state(api.TrainJobStatus(), api.TrainJob(metadata=meta()), child)

    assert found.nodes == api.Nodes(ready=4, wanted=8)


def test_each_node_of_an_elastic_job_counts_and_it_runs_as_soon_as_there_are_enough():
    def nodes(observed: int) -> tuple[str, api.Nodes]:
        size = api.ElasticStatus(2, 4, desired_nodes=4, observed_nodes=observed)
        found = with_state(api.TrainJobStatus(elastic=size), api.TrainJob(metadata=meta()), STARTING)
        return found.state, found.nodes

    assert nodes(1) == ("Starting", api.Nodes(1, 4))
    assert nodes(2) == ("Running", api.Nodes(2, 4))


def test_restarts_are_those_of_the_jobset_and_of_single_jobs():
    counters = jobset.ReplicatedJobStatus("node", job_restarts=(0, 2))
    child = replace(RUNNING, status=jobset.JobSetStatus(restarts=1, replicated_jobs_status=(counters,)))

    assert with_state(api.TrainJobStatus(), api.TrainJob(metadata=meta()), child).restarts == 3


def test_a_jobset_that_is_gone_leaves_what_was_known_last():
    known = api.TrainJobStatus(nodes=api.Nodes(4, 4), restarts=2)
    job = api.TrainJob(metadata=meta(), status=known)

    assert with_state(known, job, None) == replace(known, state="Pending")


def shown(job: api.TrainJob) -> tuple[str, str, int | None]:
    nodes = job.status.nodes
    return job.status.state, f"{nodes.ready}/{nodes.wanted}" if nodes else "", job.status.restarts


def test_a_life_shows_its_states_in_the_writes_that_it_has_anyway():
    seen = []

    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            seen.append(shown(await world.read()))
            for condition, counters in ((None, {"active": 1}), (None, {"active": 1, "ready": 1})):
                await world.progress(condition, **counters)
                await world.settle(2)
                seen.append(shown(await world.read()))
            await world.progress("Completed", succeeded=1)
            await world.settle(2)
            seen.append(shown(await world.read()))

            writes = [write for write in world.counting.writes if "status" in write]
            assert len(writes) == 3, "the counters twice, and the end"

    play(scenario)
    assert seen == [("", "", None), ("Starting", "0/2", 0), ("Running", "2/2", 0), ("Complete", "2/2", 0)]


def test_without_the_gate_there_is_no_state_and_one_that_was_stored_goes():
    seen = []

    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            await world.progress(None, active=1)
            await world.settle(2)
            seen.append(shown(await world.read()))
        async with world.operator(shows_state=False):
            await world.settle(2)
            seen.append(shown(await world.read()))

    play(scenario)
    assert seen == [("Starting", "0/2", 0), ("", "", None)]


def test_a_restart_that_is_over_before_counters_are_written_is_counted_all_the_same():
    async def scenario(world: World) -> None:
        async with world.running_job(active=1, ready=1):
            await world.settle()
            world.counting.calls.clear()
            key = (await world.read()).key
            await world.user.patch(jobset.JOBSETS, key, {"status": {"restarts": 1}}, subresource="status")
            await world.settle(2)

            assert shown(await world.read()) == ("Running", "2/2", 1)
            assert world.counting.writes == ["PATCH trainjobs/job/status"]

    play(scenario)


def test_a_diagnosis_makes_a_job_that_does_not_start_stalled_until_it_goes():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.user.delete(api.TRAINING_RUNTIMES, (await world.user.list(api.TRAINING_RUNTIMES)).items[0].key)
            await world.settle()
            await world.job()
            await world.settle(5)
            stalled = await world.read()
            assert (stalled.status.state, stalled.status.diagnosis is not None) == ("Stalled", True)
            await world.runtime()
            await world.settle(5)
            assert shown(await world.read()) == ("Pending", "", None)

    play(scenario)


def without_state(crd):
    """The definition as Kubeflow has it: without ktrain's own fields of the status."""
    [version] = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    status = {key: value for key, value in schema["properties"]["status"].items() if key != "default"}
    own = ("state", "nodes", "restarts", "diagnosis")
    status["properties"] = {key: value for key, value in status["properties"].items() if key not in own}
    schema = schema | {"properties": schema["properties"] | {"status": status}}
    return crd | {"spec": crd["spec"] | {"versions": [version | {"schema": {"openAPIV3Schema": schema}}]}}


def test_where_kubeflows_definition_drops_the_state_it_is_not_written_for_ever():
    """A restart of the operator writes nothing, either: a state that the status does not show is no reason to write."""

    async def scenario(world: World) -> None:
        world.server.install_crds([without_state(crd) for crd in all_crds() if "trainjobs." in crd["metadata"]["name"]])
        async with world.running_job(active=1):
            await world.settle(2)
            assert (await world.read()).status.state == ""
            assert (await world.read()).status.jobs_status[0].active == 1
            world.counting.calls.clear()
            await world.progress(active=1, ready=1)
            await world.settle(5)
            assert world.counting.writes == ["PATCH trainjobs/job/status"]
            world.counting.calls.clear()
            key = (await world.read()).key
            await world.user.patch(jobset.JOBSETS, key, {"status": {"restarts": 1}}, subresource="status")
            await world.settle(600)
            assert world.counting.writes == []
        async with world.operator():
            await world.settle(600)
            assert world.counting.writes == []

    play(scenario)


def test_a_state_that_another_controller_left_behind_is_put_right():
    """Kubeflow's controller does not know the state: a job that it ended beside our definition still shows another."""

    async def scenario(world: World) -> None:
        async with world.running_job(active=1, ready=1):
            await world.settle(2)
        end = {"type": "Complete", "status": "True", "reason": "AllJobsCompleted", "message": ""}
        end["lastTransitionTime"] = "2030-01-01T00:00:00Z"
        key = (await world.read()).key
        await world.user.patch(api.TRAIN_JOBS, key, {"status": {"conditions": [end]}}, subresource="status")
        assert (await world.read()).status.state == "Running"
        async with world.operator():
            await world.settle(5)
            assert (await world.read()).status.state == "Complete"

    play(scenario)
