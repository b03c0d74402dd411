"""What `kubectl get trainjobs` prints through a life: the same tables on the embedded server and on a real one."""

import pytest

from ktrain.api.core import JOBS, PODS
from ktrain.api.meta import Key
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES

CONTROLLERS = ("trainjob", "jobset", "job")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{ns}/trainjobs"


@pytest.fixture
def printed(ask):
    """The row of the job as kubectl prints it, by the names of the columns."""

    async def row():
        table = (await ask("GET", PATH, accept=TABLE)).body
        [cells] = [row["cells"] for row in table["rows"]]
        return dict(zip([one["name"] for one in table["columnDefinitions"]], cells, strict=True))

    return row


@pytest.fixture
def shows(control_plane, printed):
    """Wait until the status has a state; returns what is printed then: state, nodes and restarts."""

    async def wait(state):
        await control_plane.wait_for(TRAIN_JOBS, "job", lambda job: job is not None and job.status.state == state)
        row = await printed()
        return row["State"], row["Nodes"], row["Restarts"]

    return wait


@pytest.fixture
def pods_are(control_plane):
    """Wait for both pods of an attempt, and give them a phase as the kubelet would."""

    async def set_phase(phase, attempt=0):
        started = lambda job: job is not None and job.status.active == 2  # noqa: E731
        restarted = f"{attempt}"
        label = "jobset.sigs.k8s.io/restart-attempt"
        await control_plane.wait_for(
            JOBS, "job-node-0", lambda job: started(job) and job.metadata.labels.get(label) == restarted
        )
        client, namespace = control_plane.client(), control_plane.namespace
        found = (await client.list(PODS, namespace)).items
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        status = {"phase": phase, "conditions": [ready]}
        for pod in found:
            if pod.metadata.deletion_timestamp is None and pod.metadata.labels.get(label) == restarted:
                await client.patch(PODS, Key(namespace, pod.metadata.name), {"status": status}, subresource="status")

    return set_phase


async def test_the_state_is_empty_until_a_controller_has_reported_it(create_train_job, printed):
    await create_train_job()

    row = await printed()

    assert [row[name] for name in ("State", "Nodes", "Restarts", "Diagnosis", "Condition")] == [None] * 5
    assert row["Runtime"] == "rt"


async def test_the_columns_and_which_of_them_are_wide(create_train_job, ask):
    await create_train_job()

    table = (await ask("GET", PATH, accept=TABLE)).body

    columns = [(one["name"], one["priority"]) for one in table["columnDefinitions"]]
    assert columns == [
        ("Name", 0),
        ("State", 0),
        ("Nodes", 0),
        ("Restarts", 0),
        ("Age", 0),
        ("Runtime", 1),
        ("Diagnosis", 1),
        ("Condition", 1),
    ]


async def test_a_life_from_pending_to_complete(running, create_train_job, shows, pods_are):
    async with running(*CONTROLLERS):
        await create_train_job()
        assert await shows("Starting") == ("Starting", "0/2", 0)
        await pods_are("Running")
        assert await shows("Running") == ("Running", "2/2", 0)
        await pods_are("Succeeded")
        assert await shows("Complete") == ("Complete", "2/2", 0)


async def test_a_restart_is_shown_and_counted(control_plane, running, create_train_job, shows, pods_are):
    policy = {"spec": {"template": {"spec": {"failurePolicy": {"maxRestarts": 1}}}}}
    await control_plane.client().patch(TRAINING_RUNTIMES, Key(control_plane.namespace, "rt"), policy)
    async with running(*CONTROLLERS):
        await create_train_job()
        await pods_are("Running")
        assert await shows("Running") == ("Running", "2/2", 0)
        await pods_are("Failed")
        assert (await shows("Restarting"))[::2] == ("Restarting", 1)
        await pods_are("Running", attempt=1)
        assert await shows("Running") == ("Running", "2/2", 1)
        await pods_are("Failed", attempt=1)
        assert (await shows("Failed"))[::2] == ("Failed", 1)


async def test_suspended_queued_and_running_again(control_plane, running, create_train_job, shows, pods_are):
    client, key = control_plane.client(), Key(control_plane.namespace, "job")
    async with running(*CONTROLLERS):
        await create_train_job(suspend=True)
        assert (await shows("Suspended"))[0] == "Suspended"
        queue = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}}
        await client.patch(TRAIN_JOBS, key, queue)
        assert (await shows("Queued"))[0] == "Queued"
        await client.patch(TRAIN_JOBS, key, {"spec": {"suspend": False}})
        assert await shows("Starting") == ("Starting", "0/2", 0)
        await pods_are("Running")
        assert await shows("Running") == ("Running", "2/2", 0)
        await client.patch(TRAIN_JOBS, key, {"spec": {"suspend": True}})
        assert (await shows("Queued"))[0] == "Queued"


async def test_a_job_that_cannot_start_is_stalled_and_says_why(
    control_plane, running, create_train_job, shows, printed
):
    await create_train_job()
    await control_plane.client().delete(TRAINING_RUNTIMES, Key(control_plane.namespace, "rt"))
    async with running(*CONTROLLERS):
        await shows("Stalled")
        row = await printed()
        assert (row["State"], row["Runtime"], row["Diagnosis"]) == ("Stalled", "rt", "RuntimeUnusable")
