"""examples/framework: the operator of the guide, whole, as it would run in a cluster."""

import importlib.util
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import pytest
import yaml

from ktrain.api.core import EVENTS, JOBS, LEASES, untyped
from ktrain.api.meta import Key, Resource
from ktrain.framework import (
    Operator,
    Registrations,
    RestMapper,
    SelfManagedCertificates,
    Settings,
    WebhookAddress,
)
from ktrain.framework.errors import Invalid, ServerError
from ktrain.framework.webhook.injection import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from ktrain.testing.faults import FaultTransport

from ..waiting import until

EXAMPLE = Path(__file__).parents[2] / "examples/framework"
BACKUPS = Resource("example.dev", "v1", "Backup", "backups", namespaced=True, type=dict)
MANIFESTS = list(yaml.safe_load_all((EXAMPLE / "deploy.yaml").read_text()))

pytestmark = pytest.mark.crds(EXAMPLE / "crd.yaml")


def load():
    """Import the example, which is a program and in no package."""
    spec = importlib.util.spec_from_file_location("example_operator", EXAMPLE / "backups.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def operator(control_plane):
    """
    `async with operator() as op:` runs the example, elected; the API server reaches its webhook by URL.

    Two things differ from a deployment: the URL, as there is no Service to reach it through, and free ports.
    """

    @asynccontextmanager
    async def run():
        plane = control_plane
        async with Operator("backup-operator", settings(plane), transport=plane.transport, env=plane.env) as op:
            load().build(op)
            source = SelfManagedCertificates(
                plane.client(),
                plane.env,
                secret=Key(plane.namespace, "backup-operator"),
                address=WebhookAddress.of_hosts("127.0.0.1"),
                registrations=Registrations(validating=(plane.namespace,)),
                check_s=0.2,
            )
            op.certificates(source)
            async with anyio.create_task_group() as tasks:
                await tasks.start(op.run)
                yield op
                op.stop()

    return run


def settings(plane):
    """Those of the example, inside of a test."""
    return Settings(
        leader_election="backups",
        namespace=plane.namespace,
        health_address="127.0.0.1:0",
        metrics_address="127.0.0.1:0",
        webhook_address="127.0.0.1:0",
        owns_process=False,
    )


@pytest.fixture
def webhook(control_plane):
    """`async with webhook(op):` registers the webhook of deploy.yaml by URL, for this test's namespace."""

    @asynccontextmanager
    async def run(op):
        client, name = control_plane.client(), control_plane.namespace
        [body] = [one for one in MANIFESTS if one["kind"] == "ValidatingWebhookConfiguration"]
        [entry] = body["webhooks"]
        url = f"https://127.0.0.1:{op.servers.webhooks.port}{entry['clientConfig']['service']['path']}"
        selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
        entry = {**entry, "clientConfig": {"url": url}, "namespaceSelector": selector}
        await client.create(CONFIGURATIONS, {**body, "metadata": {"name": name}, "webhooks": [entry]})
        try:
            await control_plane.wait_for(CONFIGURATIONS, name, has_ca)
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await client.delete(CONFIGURATIONS, Key("", name))

    return run


def has_ca(configuration):
    return bool(configuration["webhooks"][0]["clientConfig"].get("caBundle"))


@pytest.fixture
def backup(control_plane):
    """The body of a Backup."""

    def body(name="database", **spec):
        meta = {"name": name, "namespace": control_plane.namespace}
        spec = {"everySeconds": 3600, "timeoutSeconds": 50, "image": "none", "command": ["true"], **spec}
        return {"apiVersion": "example.dev/v1", "kind": "Backup", "metadata": meta, "spec": spec}

    return body


async def jobs_of(plane, condition):
    """Wait until the Jobs of this namespace are as expected, and return them, oldest first."""

    async def jobs():
        found = (await plane.client().list(untyped(JOBS), plane.namespace)).items
        return sorted((job for job in found if "deletionTimestamp" not in job["metadata"]), key=started)

    return await until(jobs, condition, within_s=30)


def started(job):
    return job["metadata"]["creationTimestamp"], job["metadata"]["name"]


async def finish(plane, job):
    """End a run as a Job controller would; no node runs its pod here."""
    client, name, now = plane.client(), job["metadata"]["name"], plane.env.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    reached = {"status": "True", "lastProbeTime": now, "lastTransitionTime": now}
    status = {
        "startTime": now,
        "completionTime": now,
        "succeeded": 1,
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [{"type": kind, **reached} for kind in ("SuccessCriteriaMet", "Complete")],
    }
    await client.patch(untyped(JOBS), Key(plane.namespace, name), {"status": status}, subresource="status")


async def test_a_backup_gets_a_job_that_it_owns_its_end_is_in_the_status_and_an_event_tells_of_it(
    control_plane, operator, backup
):
    client = control_plane.client()
    async with operator():
        made = await client.create(BACKUPS, backup())
        [job] = await jobs_of(control_plane, lambda jobs: len(jobs) == 1)
        [owner] = job["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Backup", made["metadata"]["uid"], True)
        assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["true"]
        assert job["spec"]["activeDeadlineSeconds"] == 50

        await finish(control_plane, job)
        counted = {"succeeded": 1, "failed": 0}
        await control_plane.wait_for(BACKUPS, "database", lambda one: one.get("status") == counted)

    events = (await client.list(untyped(EVENTS), control_plane.namespace)).items
    notes = [one["note"] for one in events if one["regarding"]["kind"] == "Backup"]
    assert notes == [f"run {job['metadata']['name']} started"]


async def test_runs_follow_each_other_and_only_the_last_ones_are_kept(control_plane, operator, backup):
    client, seen = control_plane.client(), set()
    async with operator():
        await client.create(BACKUPS, backup(everySeconds=2, timeoutSeconds=1, keep=1))

        async def finish_new():
            for job in await jobs_of(control_plane, len):
                if job["metadata"]["name"] not in seen:
                    seen.add(job["metadata"]["name"])
                    await finish(control_plane, job)
            return len(seen)

        await until(finish_new, lambda count: count >= 4, within_s=40)
        left = await jobs_of(control_plane, lambda jobs: len(jobs) <= 2)

    # The last one that ended, and perhaps one that has just begun.
    assert {job["metadata"]["name"] for job in left} <= {*sorted(seen)[-2:], left[-1]["metadata"]["name"]}


async def test_when_a_backup_is_deleted_its_jobs_go_too(control_plane, operator, backup):
    client = control_plane.client()
    async with operator():
        await client.create(BACKUPS, backup())
        await jobs_of(control_plane, lambda jobs: len(jobs) == 1)
        await client.delete(BACKUPS, Key(control_plane.namespace, "database"))

        assert await jobs_of(control_plane, lambda jobs: not jobs) == []


async def test_the_webhook_refuses_runs_that_would_overlap(control_plane, operator, webhook, backup):
    client = control_plane.client()
    wrong = backup("overlapping", everySeconds=60, timeoutSeconds=60)
    message = 'admission webhook "backups.example.dev" denied the request: spec.timeoutSeconds must be less than'
    async with operator() as op, webhook(op):
        assert message in str(await refusal(client, wrong))
        await client.create(BACKUPS, backup())


async def refusal(client, body):
    """Why a Backup is refused. An API server learns of a new webhook, and of its CA, in its own time."""

    async def attempt():
        try:
            await client.create(BACKUPS, body, dry_run=True)
        except Invalid as error:
            return error

    return await until(attempt, despite=ServerError)


async def test_it_holds_its_lease_is_ready_and_can_be_measured_and_gives_the_lease_up_at_the_end(
    control_plane, operator, backup
):
    async with operator() as op:
        await control_plane.client().create(BACKUPS, backup())
        await jobs_of(control_plane, len)
        async with aiohttp.ClientSession() as session:

            async def ask(server, path):
                async with session.get(f"http://127.0.0.1:{server.port}{path}") as answer:
                    return answer.status, await answer.text()

            assert await ask(op.servers.health, "/healthz") == (200, "ok")
            code, ready = await ask(op.servers.health, "/readyz?verbose")
            assert (code, ready.splitlines()[-1]) == (200, "ok")
            assert "leader-election ok: this process leads" in ready
            _, metrics = await ask(op.servers.metrics, "/metrics")
            assert 'leader_election_master_status{name="backups"} 1.0' in metrics
            assert 'controller_runtime_reconcile_total{controller="backup",result="requeue_after"}' in metrics
        lease = await control_plane.client().get(LEASES, "backups", control_plane.namespace)
        assert lease.spec.holder_identity
    lease = await control_plane.client().get(LEASES, "backups", control_plane.namespace)
    assert lease.spec.holder_identity == ""


@pytest.fixture
async def deployed(control_plane):
    """Create what deploy.yaml has, in this test's namespace; returns the transport of its service account."""
    client, namespace = control_plane.client(), control_plane.namespace
    mapper, made = RestMapper(client), []
    left_out = {"Namespace", "ValidatingWebhookConfiguration"}
    if not control_plane.is_real:
        left_out.add("Deployment")  # rights are what this is about, and the embedded server needs nothing else
    for manifest in MANIFESTS:
        if manifest["kind"] not in left_out:
            resource = await mapper.for_object(manifest)
            body = in_namespace(manifest, namespace)
            found = await client.create(resource, body, field_validation="Strict")
            made.append((resource, Key(namespace if resource.namespaced else "", found["metadata"]["name"])))
    yield await control_plane.add_user(f"system:serviceaccount:{namespace}:backup-operator")
    for resource, key in made:
        await client.delete(resource, key)


def in_namespace(manifest, namespace):
    meta = {name: value for name, value in manifest["metadata"].items() if name != "namespace"}
    if "namespace" in manifest["metadata"]:
        meta["namespace"] = namespace
    subjects = {"subjects": [{**one, "namespace": namespace} for one in manifest.get("subjects", [])]}
    return {**manifest, "metadata": meta, **(subjects if "subjects" in manifest else {})}


async def test_what_the_manifest_grants_is_enough_and_nothing_is_refused(control_plane, deployed, backup):
    plane, client = control_plane, control_plane.client()
    [body] = [one for one in MANIFESTS if one["kind"] == "ValidatingWebhookConfiguration"]
    [entry] = body["webhooks"]
    service = {**entry["clientConfig"]["service"], "namespace": plane.namespace}
    # Nobody can be asked through a Service here, so it is about a namespace that there is not.
    nowhere = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}}
    hooks = [{**entry, "clientConfig": {"service": service}, **nowhere}]
    await client.create(CONFIGURATIONS, {**body, "webhooks": hooks})
    calls = FaultTransport(deployed, plane.env)
    try:
        async with Operator("backup-operator", settings(plane), transport=calls, env=plane.env) as op:
            load().build(op)
            async with anyio.create_task_group() as tasks:
                await tasks.start(op.run)
                await plane.wait_for(CONFIGURATIONS, body["metadata"]["name"], has_ca)
                await client.create(BACKUPS, backup(everySeconds=2, timeoutSeconds=1, keep=1))

                async def finish_running():
                    for job in await jobs_of(plane, len):
                        if not job.get("status", {}).get("succeeded"):
                            await finish(plane, job)
                    return calls.count("delete", JOBS)

                await until(finish_running, within_s=40)
                op.stop()
    finally:
        await client.delete(CONFIGURATIONS, Key("", body["metadata"]["name"]))

    assert {call.verb for call in calls.calls()} >= {"get", "watch", "create", "patch", "delete"}
    # Other tests' namespaces may be on their way out, where everybody is refused.
    ours = [call for call in calls.calls() if call.route is None or call.route.namespace in {"", plane.namespace}]
    assert [str(call) for call in ours if call.status in {401, 403}] == []


def test_the_example_is_as_short_as_the_guide_says():
    assert len((EXAMPLE / "backups.py").read_text().splitlines()) < 100
