"""TrainJobs that cannot be, for a quota, a policy, a missing runtime: they say why, try on, and are in nobody's way."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from statistics import quantiles

import pytest

from ktrain.api.core import untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Resource
from ktrain.api.trainer import TRAINING_RUNTIMES

from ..waiting import until
from .weather import job

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True, type=dict)
ADMISSION = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic{}"
ANY_JOBSETS = untyped(JOBSETS)
COUNTED = "count/jobsets.jobset.x-k8s.io"
WHY = "this team has no JobSets called bad"


@pytest.fixture
def allow(weather):
    """`await allow(2, used=1)` lets the namespace have so many JobSets; plays the quota controller, too."""

    async def run(number, *, used):
        metadata = {"name": "few", "namespace": weather.plane.namespace}
        hard, seen = ({COUNTED: str(count)} for count in (number, used))
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
        await weather.client.apply(QUOTAS, quota)
        status = {"status": {"hard": hard, "used": seen}}
        await weather.client.patch(QUOTAS, weather.key("few"), status, subresource="status")

    return run


@pytest.fixture
def policy(weather, ask, job_set):
    """`async with policy():` no JobSet of the namespace may be called `bad...`; the refusal says WHY."""
    name = weather.plane.namespace
    rule = {"apiGroups": [JOBSETS.group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobsets"]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    bodies = {
        ADMISSION.format("ies"): {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "!object.metadata.name.startsWith('bad')", "message": WHY}],
        },
        ADMISSION.format("ybindings"): {"policyName": name, "validationActions": ["Deny"], "matchResources": here},
    }

    @asynccontextmanager
    async def run():
        for path, spec in bodies.items():
            assert (await ask("POST", path, {"metadata": {"name": name}, "spec": spec})).status == 201
        try:
            # A server learns of policies in its own time, and nothing tells when.
            create = partial(ask, "POST", f"{JOBSETS.path(name)}?dryRun=All", job_set("bad"))
            await until(create, lambda said: said.status != 201, within_s=30)
            yield
        finally:
            for path in reversed(bodies):
                await ask("DELETE", f"{path}/{name}")

    return run


@pytest.fixture
def job_set(weather):
    """Somebody's JobSet, to send."""

    def body(name):
        metadata = {"name": name, "namespace": weather.plane.namespace}
        spec = {"suspend": True, "replicatedJobs": [job("mine")]}
        return {"apiVersion": JOBSETS.api_version, "kind": JOBSETS.kind, "metadata": metadata, "spec": spec}

    return body


@pytest.fixture
def refused(weather):
    """`await refused("job", text)` waits until a job says in one pass why it is refused, and then does no hot loop."""

    async def run(name, text):
        found = await weather.until_status(name, where=lambda status: status.diagnosis is not None)
        said = [call for call in weather.writes("patch") if call.route.name == name]
        await asyncio.sleep(2)  # of real time on a real server: a hot loop would write hundreds of times

        assert found.status.diagnosis.reason == "Refused"
        assert text in found.status.diagnosis.message
        assert [(call.route.plural, call.status) for call in said[:2]] == [
            ("jobsets", said[0].status),
            ("trainjobs", 200),
        ]
        assert said[0].status in (403, 422)
        assert 2 <= len(weather.writes(resource=JOBSETS, name=name)) <= 12
        assert len(weather.writes(resource="trainjobs", name=name)) == 1

    return run


async def test_what_a_quota_refuses_is_explained_in_one_pass_and_tried_again_ever_more_rarely(weather, allow, refused):
    await allow(1, used=0)
    async with weather.operator():
        await weather.create("first")
        await weather.until_job_sets("first")
        await weather.create("second")
        await refused("second", f"exceeded quota: few, requested: {COUNTED}=1, used: {COUNTED}=1, limited: {COUNTED}=1")

        await allow(2, used=1)
        await weather.until_job_sets("second")
        await weather.progress("second", active=1)
        await weather.until_status("second", where=lambda status: status.diagnosis is None)


async def test_what_a_policy_refuses_is_explained_in_one_pass_and_tried_again_ever_more_rarely(
    weather, policy, refused
):
    async with policy(), weather.operator():
        await weather.create("bad-idea")
        await refused("bad-idea", WHY)
    async with weather.operator():
        await weather.until_job_sets("bad-idea")
        await weather.progress("bad-idea", active=1)
        await weather.until_status("bad-idea", where=lambda status: status.diagnosis is None)


@pytest.fixture
def latency(weather):
    """
    `await latency("a", "b")` creates jobs one after the other; the lower quartile of seconds to the write of a JobSet.

    On a machine that others use too it says most: what holds up workers holds up all jobs, and what is by chance some.
    """

    async def run(*names):
        sent = {}
        for name in names:
            sent |= await weather.create(name)
            await weather.until_job_sets(name)
        return quantiles(weather.writes("apply", JOBSETS, name=name)[0].at_s - sent[name] for name in names)[0]

    return run


async def test_hopeless_jobs_say_why_within_five_seconds_and_leave_others_alone(weather, policy, job_set, latency):
    hopeless = {
        "RuntimeUnusable": [f"no-runtime-{number}" for number in range(10)],
        "Refused": [f"bad-{number}" for number in range(10)],
        "NameTaken": [f"taken-{number}" for number in range(10)],
    }
    names = [name for group in hopeless.values() for name in group]
    async with weather.operator():
        usual_s = await latency(*(f"before-{number}" for number in range(15)))
    for name in hopeless["NameTaken"]:
        await weather.client.create(ANY_JOBSETS, job_set(name))
    await weather.create(*hopeless["Refused"], *hopeless["NameTaken"])
    await weather.create(*hopeless["RuntimeUnusable"], runtime="mpi")
    await weather.client.delete(TRAINING_RUNTIMES, weather.key("mpi"))
    async with policy(), weather.operator():
        begun_s = weather.now()
        await weather.until_status(*names, where=lambda status: status.diagnosis is not None)
        others_s = await latency(*(f"good-{number}" for number in range(15)))

        said_s = [weather.writes("patch", "trainjobs/status", name=name)[0].at_s for name in names]
        assert max(said_s) - begun_s < 5
        assert others_s < 1.5 * usual_s + 0.1
        for reason, group in hopeless.items():
            assert {(await weather.job(name)).status.diagnosis.reason for name in group} == {reason}
