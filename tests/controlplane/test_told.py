"""What becomes of a JobSet is told on its TrainJob, on both servers: what others complain of, and what nobody does."""

from ktrain.api.core import EVENTS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Resource

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True, type=dict)
NOTE = 'job "job-node-0" creation failed with error: jobs.batch "job-node-0" is forbidden: exceeded quota: few'


def complaint(job_set, note):
    """Build an event as the JobSet controller of Go writes it."""
    meta = job_set.metadata
    reference = {"kind": "JobSet", "apiVersion": JOBSETS.api_version, "name": meta.name, "namespace": meta.namespace}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": "Event",
        "metadata": {"name": f"{meta.name}.1", "namespace": meta.namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Warning",
        "reason": "JobCreationFailed",
        "note": note,
        "action": "Reconciling",
        "reportingController": "jobset",
        "reportingInstance": "jobset-1",
        "regarding": {**reference, "uid": meta.uid, "resourceVersion": meta.resource_version},
    }


async def test_what_the_job_set_controller_complains_of_is_told_until_the_job_set_gets_on(weather):
    async with weather.operator():
        await weather.create("job")
        found = await weather.until_job_sets("job")
        await weather.client.create(untyped(EVENTS), complaint(found, NOTE))
        told = await weather.until_status("job", where=lambda status: status.diagnosis is not None)
        # Namespaces of other tests may be ending on the same server.
        reads = weather.proxy.count("read", EVENTS, where=lambda call: call.route.namespace == weather.plane.namespace)
        await weather.progress("job", active=1)
        await weather.until_status("job", where=lambda status: status.diagnosis is None and status.jobs_status)

        assert (told.status.diagnosis.reason, told.status.diagnosis.message) == (
            "JobCreationFailed",
            f"JobSet job: {NOTE}",
        )
        assert reads == 2


async def test_a_diagnosis_goes_when_there_is_nothing_else_in_the_status(weather):
    counted = "count/jobsets.jobset.x-k8s.io"
    hard = {counted: "0"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": weather.plane.namespace},
    }
    await weather.client.apply(QUOTAS, quota | {"spec": {"hard": hard}})
    await weather.client.patch(
        QUOTAS, weather.key("few"), {"status": {"hard": hard, "used": hard}}, subresource="status"
    )
    async with weather.operator():
        await weather.create("job")
        await weather.until_status("job", where=lambda status: status.diagnosis is not None)
        await weather.client.delete(QUOTAS, weather.key("few"))
        await weather.until_job_sets("job")
        found = await weather.until_status("job", where=lambda status: status.diagnosis is None)
        await weather.quiet()

        assert found.status.conditions == found.status.jobs_status == ()
        assert len(weather.writes(resource="trainjobs", name="job")) == 2
