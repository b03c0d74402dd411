"""`ktrain doctor`: each thing that can be wrong with a cluster is found, named and answered, on both servers."""

import base64
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import yaml

from ktrain.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES, SECRETS, SERVICES, untyped
from ktrain.api.meta import Key, format_micro_time
from ktrain.api.trainer import IN_USE_FINALIZER, TRAINING_RUNTIMES
from ktrain.cli import readiness
from ktrain.cli.config import Configuration
from ktrain.cli.doctor import examination
from ktrain.cli.doctor.cluster import DEPLOYMENTS, ENDPOINT_SLICES
from ktrain.cli.doctor.finding import Status
from ktrain.cli.jobsets import UPSTREAM_LEASE
from ktrain.framework import Client
from ktrain.framework.webhook.authority import issue
from ktrain.framework.webhook.injection import VALIDATING_WEBHOOK_CONFIGURATIONS

ACCOUNT = "the-operator"
VALIDATOR = "validator.trainer.kubeflow.org"
HEAD = {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration"}
NATIVE_GANGS = {"featureGates": {"GenericWorkload": False}}
"""Its kind is not served by the real server of these tests."""


def of(findings, check, *statuses):
    """The findings of a check, as text."""
    wanted = statuses or tuple(Status)
    return [f"{one.subject}: {one.message}" for one in findings if one.check == check and one.status in wanted]


def deployment(namespace, name, image, *, labels=None, volumes=(), arguments=(), replicas=1):
    """A Deployment with one container. Nothing schedules its pods."""
    labels = {"app": name, **(labels or {})}
    mounts = [{"name": one["name"], "mountPath": "/etc/ktrain"} for one in volumes]
    container = {"name": "c", "image": image, "args": list(arguments), "volumeMounts": mounts}
    pod = {"serviceAccountName": ACCOUNT, "containers": [container], "volumes": list(volumes)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


@pytest.fixture
def client(control_plane):
    """The administrator's client."""
    return control_plane.client()


@pytest.fixture
def examined(control_plane, client):
    """`await examined()` runs all checks about the test's namespace; with a transport, as its user."""

    async def examine(transport=None, **options):
        asking = Client(transport, control_plane.env, field_manager="test") if transport else client
        return await examination.examine(asking, control_plane.namespace, **options)

    return examine


@pytest.fixture
def install(control_plane, client):
    """`await install(**configuration)` makes the operator's Deployment and its ConfigMap."""

    async def create(text="", replicas=1, **configuration):
        namespace = control_plane.namespace
        data = {"config.yaml": text or yaml.safe_dump({**HEAD, **NATIVE_GANGS, **configuration})}
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config", "namespace": namespace}}
        await client.create(untyped(CONFIG_MAPS), {**head, "data": data})
        body = deployment(
            namespace,
            "operator",
            "ktrain-operator",
            labels={"app.kubernetes.io/name": "ktrain"},
            volumes=[{"name": "config", "configMap": {"name": "config"}}],
            arguments=["--config", "/etc/ktrain/config.yaml"],
            replicas=replicas,
        )
        await client.create(DEPLOYMENTS, body)

    return create


@pytest.fixture
async def hold(control_plane, client):
    """`await hold(name, holder)` has somebody hold a lease until the end of the test: all namespaces are looked at."""
    namespace, names = control_plane.namespace, []

    async def create(name, holder, *, age_s=0.0):
        renewed = datetime.now(UTC) - timedelta(seconds=age_s)
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format_micro_time(renewed)}
        head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await client.create(untyped(LEASES), {**head, "metadata": {"name": name, "namespace": namespace}, "spec": spec})
        names.append(name)

    yield create
    for name in names:
        await client.delete(LEASES, Key(namespace, name))


async def test_a_cluster_with_nothing_installed_is_fit(examined):
    findings = await examined()

    assert not of(findings, "definitions", Status.ERROR, Status.WARNING)
    assert of(findings, "jobset") == [
        "jobsets.jobset.x-k8s.io: no controller works on JobSets; ktrain's own (jobset.mode=builtin) can"
    ]
    assert of(findings, "operator") == ["operator: is not installed"]
    assert of(findings, "rights") == ["installation: this user may create what the chart installs"]
    assert of(findings, "kubernetes")[0].startswith("API server: Kubernetes v1.36")
    assert not [one for one in findings if one.status is Status.SKIPPED]


async def test_an_operator_that_has_to_be_there_is_missed(examined):
    findings = await examined(installed=True)

    assert "operator: no ktrain operator was found" in of(findings, "operator", Status.ERROR)


async def test_the_jobset_operator_at_work_decides_the_mode(examined, hold):
    await hold(UPSTREAM_LEASE, "jobset-1")

    assert of(await examined(), "jobset") == [
        "jobsets.jobset.x-k8s.io: the JobSet operator works here; install ktrain with jobset.mode=external"
    ]


async def test_two_controllers_of_jobsets_are_an_error(examined, install, hold):
    await hold(UPSTREAM_LEASE, "jobset-1")
    await install(jobset={"enable": True})

    (found,) = of(await examined(), "jobset", Status.ERROR)
    assert found.startswith("jobsets.jobset.x-k8s.io: two controllers: ktrain's and the JobSet operator, jobset-1")


async def test_no_controller_of_jobsets_is_an_error(examined, install, hold):
    await hold(UPSTREAM_LEASE, "jobset-1", age_s=60)
    await install()

    (found,) = of(await examined(), "jobset", Status.ERROR)
    assert found == "jobsets.jobset.x-k8s.io: no controller works on them, so TrainJobs would never get pods"


async def test_replicas_that_are_not_ready_and_nobody_leading(examined, install, control_plane):
    await install(leaderElection={"leaderElect": True}, replicas=2)

    found = of(await examined(), "operator", Status.ERROR)
    assert f"Deployment {control_plane.namespace}/operator: 0 of 2 replicas are ready" in found
    assert "Lease trainer.kubeflow.org: no replica holds it, so none works" in found


async def test_replicas_without_an_election_are_an_error(examined, install):
    await install(replicas=2)

    assert "leader election: is off, and 2 replicas write side by side" in of(
        await examined(), "operator", Status.ERROR
    )


async def test_the_leader_is_named(examined, install, hold):
    await hold("trainer.kubeflow.org", "operator-1")
    await install(leaderElection={"leaderElect": True})

    assert "Lease trainer.kubeflow.org: operator-1 leads" in of(await examined(), "operator", Status.OK)


async def test_a_configuration_that_no_replica_can_read(examined, install, control_plane):
    await install(yaml.safe_dump({**HEAD, "webhok": {}}))

    found = " ".join(of(await examined(), "operator", Status.ERROR))
    assert f"ConfigMap {control_plane.namespace}/config, config.yaml: " in found
    assert "webhok" in found


async def register(client, namespace, bundle, service="svc"):
    """Register a validating webhook for TrainJobs that no API server is asked about by anyone in this test."""
    config = {"service": {"namespace": namespace, "name": service, "path": "/x"}, "caBundle": bundle}
    rule = {"apiGroups": ["trainer.kubeflow.org"], "apiVersions": ["v1alpha1"], "operations": ["CREATE"]}
    entry = {
        "name": "validator.trainjob.trainer.kubeflow.org",
        "clientConfig": {key: value for key, value in config.items() if value},
        "rules": [{**rule, "resources": ["trainjobs"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": VALIDATING_WEBHOOK_CONFIGURATIONS.kind}
    await client.create(
        VALIDATING_WEBHOOK_CONFIGURATIONS, {**head, "metadata": {"name": VALIDATOR}, "webhooks": [entry]}
    )


@pytest.fixture
async def unregistered(client):
    """Takes the registration away after a test: it is the whole server's."""
    yield
    await client.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, Key("", VALIDATOR))


def encoded(pem):
    return base64.b64encode(pem).decode()


@pytest.mark.usefixtures("unregistered")
async def test_a_registration_that_was_left_over(examined, client, control_plane):
    namespace = control_plane.namespace
    await register(client, namespace, "")

    found = of(await examined(), "webhooks", Status.ERROR)
    where = f"ValidatingWebhookConfiguration {VALIDATOR}"
    assert found == [
        f"{where}: calls Service {namespace}/svc, which does not exist: the API server refuses every TrainJob",
        f"{where}: has a webhook without caBundle: the API server cannot verify the operator",
    ]


@pytest.mark.usefixtures("unregistered")
async def test_a_service_without_a_replica_and_a_ca_that_expired(examined, install, client, control_plane):
    namespace, now = control_plane.namespace, datetime.now(UTC)
    old = issue(["svc"], now=now - timedelta(days=20), lifetime=timedelta(days=10))
    new = issue(["svc"], now=now, lifetime=timedelta(days=10))
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc", "namespace": namespace}}
    await client.create(untyped(SERVICES), {**service, "spec": {"ports": [{"port": 443}]}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "svc", "namespace": namespace}}
    data = {"tls.crt": encoded(new.pair.certificate), "tls.key": encoded(new.pair.key)}
    await client.create(untyped(SECRETS), {**secret, "data": data})
    await register(client, namespace, encoded(old.ca))
    await install(webhook={"enable": True}, certManagement={"enable": True, "webhookServiceName": "svc"})

    found = "\n".join(of(await examined(), "webhooks"))
    assert f"calls Service {namespace}/svc, which has no ready endpoint" in found
    assert f"caBundle expired at {now - timedelta(days=10):%Y-%m-%d}" in found
    assert f"its caBundle does not hold the CA of Secret {namespace}/svc" in found
    assert f"Secret {namespace}/svc: its certificate ends at {now + timedelta(days=10):%Y-%m-%d}" in found
    (tried,) = [line for line in found.splitlines() if line.startswith("dry run: ")]
    # The embedded server has the rules of admission in itself.
    assert ("failed calling webhook" if control_plane.is_real else "asks the operator") in tried


@pytest.mark.usefixtures("unregistered")
async def test_a_service_with_a_replica_and_a_ca_that_holds(examined, client, control_plane):
    namespace, now = control_plane.namespace, datetime.now(UTC)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc", "namespace": namespace}}
    await client.create(untyped(SERVICES), {**service, "spec": {"ports": [{"port": 443}]}})
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "svc-1", "namespace": namespace, "labels": {"kubernetes.io/service-name": "svc"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
        "ports": [{"port": 9443}],
    }
    await client.create(ENDPOINT_SLICES, slices)
    await register(client, namespace, encoded(issue(["svc"], now=now, lifetime=timedelta(days=90)).ca))

    assert of(await examined(), "webhooks") == [f"ValidatingWebhookConfiguration {VALIDATOR}: 1 webhooks are reachable"]


async def test_rights_that_the_operator_lacks_are_named_with_their_reason(examined, install, control_plane):
    await install()

    found = of(await examined(), "rights", Status.ERROR)
    account = f"system:serviceaccount:{control_plane.namespace}:{ACCOUNT}"
    assert [line for line in found if line.startswith(f"jobsets.jobset.x-k8s.io: {account} may not ")]
    assert [
        line for line in found if line.startswith(f"trainjobs/status.trainer.kubeflow.org: {account} may not patch")
    ]
    assert not [line for line in found if "workloads" in line]


async def test_a_gang_scheduler_that_is_not_there(examined, client, control_plane):
    spec = {"podGroupPolicy": {"volcano": {}}, "template": {"spec": {"replicatedJobs": []}}}
    metadata = {"name": "gang", "namespace": control_plane.namespace, "finalizers": [IN_USE_FINALIZER]}
    head = {"apiVersion": TRAINING_RUNTIMES.api_version, "kind": TRAINING_RUNTIMES.kind, "metadata": metadata}
    await client.create(untyped(TRAINING_RUNTIMES), {**head, "spec": spec})
    findings = await examined()
    await client.patch(TRAINING_RUNTIMES, Key(control_plane.namespace, "gang"), {"metadata": {"finalizers": None}})

    served = await client.raw("GET", "/apis")
    groups = {one["name"] for one in msgspec.json.decode(served.body)["groups"]}
    if "scheduling.volcano.sh" in groups:
        assert "podGroupPolicy.volcano: podgroups.scheduling.volcano.sh is served (v1beta1)" in of(findings, "gangs")
    else:
        (found,) = of(findings, "gangs", Status.ERROR)
        assert f"runtimes ask for it: {control_plane.namespace}/gang" in found
    (left,) = [line for line in of(findings, "leftovers") if line.startswith("runtimes: ")]
    assert IN_USE_FINALIZER in left


async def test_kubeflows_operator_beside_ours_is_an_error(examined, install, client, control_plane):
    namespace = control_plane.namespace
    theirs = deployment(namespace, "theirs", "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.3.0")
    await client.create(DEPLOYMENTS, theirs)
    before = of(await examined(), "leftovers", Status.WARNING)
    await install()

    assert before == [
        f"Deployment {namespace}/theirs: is Kubeflow Trainer's operator (1 replicas); ktrain takes its place"
    ]
    (found,) = of(await examined(), "leftovers", Status.ERROR)
    assert "two operators write the same TrainJobs" in found


async def test_a_user_without_rights_hears_what_could_not_be_checked(examined, control_plane):
    findings = await examined(await control_plane.add_user("doctor-nobody"))

    assert "Deployments: " in of(findings, "operator", Status.SKIPPED)[0]
    assert {one.check for one in findings if one.status is Status.SKIPPED} >= {"jobset", "gangs", "webhooks"}
    assert of(findings, "kubernetes", Status.OK)
    assert not [one for one in findings if one.status is Status.ERROR]


async def test_the_operators_own_account_asks_about_itself(examined, control_plane):
    account = f"system:serviceaccount:{control_plane.namespace}:{ACCOUNT}"
    findings = await examined(await control_plane.add_user(account), configuration=Configuration())

    assert [line for line in of(findings, "rights", Status.ERROR) if f"{account} may not" in line]
    assert not of(findings, "rights", Status.SKIPPED)


async def test_a_kind_that_is_missing_is_said_in_the_words_of_readiness(install, client, control_plane):
    if control_plane.is_real:
        pytest.skip("definitions are the whole server's")
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", "trainjobs.trainer.kubeflow.org"))
    await install()
    findings = await examination.examine(client, control_plane.namespace)

    (found,) = of(findings, "definitions", Status.ERROR)
    (said,) = await readiness.kinds(client, with_jobset_controller=False)
    assert found == f"{said.subject}: {said.message}"


async def test_a_namespaced_operator_is_asked_about_its_namespaces_only(examined, install, control_plane):
    await install(watchNamespaces=[control_plane.namespace])

    found = of(await examined(), "rights", Status.ERROR)
    assert all(f" in {control_plane.namespace}, which it needs" in line for line in found)
    assert not [line for line in found if "clustertrainingruntimes" in line]


async def test_what_only_looks_like_the_operator_displaces_nobody(install, client, control_plane):
    if control_plane.is_real:
        pytest.skip("others install in other namespaces")
    await install()
    await client.create(untyped(NAMESPACES), {"metadata": {"name": "evil"}})
    labels = {"trainer.kubeflow.org/implementation": "ktrain"}
    await client.create(DEPLOYMENTS, deployment("evil", "evil", "any", labels=labels, arguments=["--config", "/x"]))

    findings = await examination.examine(client, "")
    meant = await examination.examine(client, control_plane.namespace)

    names = f"{control_plane.namespace}/operator, evil/evil"
    assert of(findings, "operator", Status.ERROR) == [f"operator: several Deployments look like the operator: {names}"]
    assert of(meant, "rights", Status.ERROR)
    await client.delete(untyped(NAMESPACES), Key("", "evil"))


@pytest.mark.usefixtures("unregistered")
async def test_a_secret_that_holds_junk_is_a_finding_and_the_other_checks_go_on(
    examined, install, client, control_plane
):
    namespace, now = control_plane.namespace, datetime.now(UTC)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "svc", "namespace": namespace}}
    await client.create(untyped(SECRETS), {**secret, "data": {"tls.crt": encoded(b"junk"), "tls.key": ""}})
    await register(client, namespace, encoded(issue(["svc"], now=now, lifetime=timedelta(days=90)).ca))
    await install(webhook={"enable": True}, certManagement={"enable": True, "webhookServiceName": "svc"})
    findings = await examined()

    (found,) = [line for line in of(findings, "webhooks", Status.ERROR) if "is no certificate" in line]
    assert found.startswith(f"Secret {namespace}/svc: tls.crt is no certificate")
    assert of(findings, "leftovers")


async def test_the_operator_is_found_by_its_label_whatever_its_name_is(examined, client, control_plane):
    body = deployment(
        control_plane.namespace,
        "kubeflow-trainer-controller-manager",
        "registry/other",
        labels={"app.kubernetes.io/name": "kubeflow-trainer", "trainer.kubeflow.org/implementation": "ktrain"},
        arguments=["--config=/etc/ktrain/config.yaml"],
    )
    await client.create(DEPLOYMENTS, body)

    assert "operator: is not installed" not in of(await examined(), "operator")
