"""Looking at what there is: describe, explain, api-resources, versions, events, and what is not there."""

import json

import pytest

from ...programs import kubectl_minor
from ...waiting import eventually

pytestmark = pytest.mark.e2e

TRAIN_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "t"},
    "spec": {"suspend": True, "runtimeRef": {"name": "plain"}, "trainer": {"command": ["true"]}},
}


def lines_of(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_describe_says_what_a_pod_is(kubectl, pod):
    kubectl.apply(pod("p", colour="red"))
    found = lines_of(kubectl("describe", "pod", "p"))

    assert {"Name: p", "colour=red", "Containers:", "main:", "Image: none", "QoS Class: BestEffort"} <= set(found)


def test_describe_says_what_a_job_is_and_why_it_does_nothing(kubectl, job):
    kubectl.apply(job("j", parallelism=2, completions=4))
    kubectl("wait", "--for=condition=Suspended", "job/j", "--timeout=30s")
    eventually(lambda: "Job suspended" in kubectl("describe", "job", "j"), within_s=20)
    found = lines_of(kubectl("describe", "job", "j"))

    assert {"Parallelism: 2", "Completions: 4"} <= set(found)
    if kubectl_minor() >= 30:
        assert {"Suspend: true", "Backoff Limit: 6"} <= set(found)
    assert "Pods Statuses: 0 Active (0 Ready) / 0 Succeeded / 0 Failed" in found


def test_describe_knows_namespaces_configmaps_secrets_and_custom_kinds(kubectl, config_map, things):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    kubectl.apply(config_map("c", {"key": "some value"}), secret, things("t", image="x"))

    assert "Status: Active" in lines_of(kubectl("describe", "namespace", kubectl.namespace))
    assert "some value" in kubectl("describe", "cm", "c")
    described = kubectl("describe", "secret", "s")
    assert "password: 7 bytes" in lines_of(described)
    assert "hunter2" not in described
    assert {"Kind: Thing", "Image: x", "Replicas: 1"} <= set(lines_of(kubectl("describe", "thing", "t")))
    assert "Group: kubectl.test" in lines_of(kubectl("describe", "crd", "things.kubectl.test"))


def test_describe_knows_our_kinds(kubectl):
    kubectl.apply(TRAIN_JOB | {"spec": TRAIN_JOB["spec"] | {"managedBy": "kueue.x-k8s.io/multikueue"}})

    found = lines_of(kubectl("describe", "trainjob", "t"))
    assert {"Kind: TrainJob", "Suspend: true", "Managed By: kueue.x-k8s.io/multikueue"} <= set(found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pod.spec.containers.resources", "FIELD: resources <ResourceRequirements>"),
        ("pod.spec.containers.resources", "Compute Resources required by this container."),
        ("pod.spec.containers.resources", "Limits describes the maximum amount of compute resources allowed."),
        ("job.spec.backoffLimit", "FIELD: backoffLimit <integer>"),
        ("jobs.spec", "Specifies the maximum desired number of pods the job should run"),
        ("configmap", "ConfigMap holds configuration data for pods to consume."),
        ("crd.spec.names.plural", "plural is the plural name of the resource to serve."),
        ("trainjob", "A training job: a runtime, and what this job changes of it."),
        ("trainjob.spec", "Which runtime to run on, and what this job changes of it."),
        ("trainjob.spec.runtimePatches", "What managers, people and queues among them, change of the runtime"),
        ("trainjob.spec.runtimePatches", "Who patches, as domain/path; there is one patch of each."),
        ("trainjob.spec.runtimeRef", "A TrainingRuntime is one of the job's own namespace."),
        ("jobset.spec.replicatedJobs.template.spec.template.spec.containers.image", "FIELD: image <string>"),
        ("events", "Event is a report of an event somewhere in the cluster."),
        ("namespaces --api-version=v1", "Namespace provides a scope for Names."),
    ],
)
def test_explain_tells_what_a_field_is_for(server, path, expected):
    assert expected in server("explain", *path.split())


def test_explain_shows_a_whole_tree_and_knows_what_is_not_there(kubectl, things):
    tree = lines_of(kubectl("explain", "job.spec.template.spec.containers.env", "--recursive"))
    assert {"name <string> -required-", "valueFrom <EnvVarSource>", "configMapKeyRef <ConfigMapKeySelector>"} <= set(
        tree
    )
    assert "port <IntOrString> -required-" in lines_of(kubectl("explain", "pod.spec.containers.livenessProbe.httpGet"))
    assert "limits <map[string]Quantity>" in lines_of(kubectl("explain", "pod.spec.containers.resources"))

    # A real server publishes what it says of a kind some time after it serves the kind.
    assert eventually(lambda: kubectl.run("explain", "thing.spec").returncode == 0)
    shown = kubectl("explain", "thing.spec")
    assert "What is wanted." in shown
    assert "replicas" in shown
    assert 'field "nope" does not exist' in kubectl.fails("explain", "thing.spec.nope")
    assert "doesn't have a resource type" in kubectl.fails("explain", "nopes")


def test_api_resources_and_versions_list_what_is_served(server):
    found = [line.split() for line in server("api-resources", "--no-headers").splitlines()]
    assert ["pods", "po", "v1", "true", "Pod"] in found
    assert ["trainjobs", "trainer.kubeflow.org/v1alpha1", "true", "TrainJob"] in found
    assert ["jobs", "batch/v1", "true", "Job"] in found
    assert "namespaces" in server("api-resources", "--namespaced=false", "-o", "name").split()
    assert "jobs.batch" in server("api-resources", "--api-group=batch", "-o", "name").split()
    assert "pods" in server("api-resources", "--verbs=list,watch", "--categories=all", "-o", "name").split()
    assert {"v1", "batch/v1", "trainer.kubeflow.org/v1alpha1"} <= set(server("api-versions").split())


def test_every_resource_that_can_be_listed_is_listed(server):
    names = server("api-resources", "--verbs=list", "-o", "name").split()
    assert server.run("get", ",".join(names), "-A").returncode == 0


def test_kubectl_warns_of_the_servers_version_only_when_it_is_more_than_one_minor_away(server):
    found = json.loads(server("version", "-o", "json"))
    assert found["serverVersion"]["major"] == "1"
    assert found["serverVersion"]["gitVersion"].startswith("v1.")
    # Providers write `32+`.
    client, its_server = (int(found[side]["minor"].rstrip("+")) for side in ("clientVersion", "serverVersion"))
    done = server.run("version")
    assert done.returncode == 0
    assert ("version difference" in done.stderr) is (abs(client - its_server) > 1)


def test_cluster_info_and_config_name_the_server(server):
    url = server("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    assert url in server("cluster-info")
    assert server("config", "current-context").strip()
    assert "current-context:" in server("config", "view")


def test_cluster_info_can_be_dumped(server, tmp_path):
    server("cluster-info", "dump", "--output-directory", str(tmp_path / "dump"))
    assert (tmp_path / "dump" / "nodes.json").exists()


def test_events_are_shown_by_both_commands(kubectl, job):
    kubectl.apply(job("j"))
    eventually(lambda: "Suspended" in kubectl("events"), within_s=20)

    assert "Job suspended" in kubectl("events", "--for", "job/j")
    assert "job/j" in kubectl("get", "events", "--field-selector", "involvedObject.name=j")
    assert "Job/j" in kubectl("events", "--types=Normal")


def test_metrics_and_other_servers_are_not_there(server):
    assert "Metrics API not available" in server.fails("top", "pod")
    assert "Metrics API not available" in server.fails("top", "node")
