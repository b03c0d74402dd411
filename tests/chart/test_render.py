"""The chart's output for each file of values/: the same again, valid, and taken by an API server."""

import json

import pytest
import yaml

from ktrain.cli.config_file import load

from .programs import CHART, NAMESPACE, VALUES, objects, of_kind, template
from .schemas import LOCATION, write_schemas

FILES = sorted(VALUES.glob("*.yaml"))
NAMES = [file.stem for file in FILES]
NAMESPACES = (NAMESPACE, "team-a", "team-b", "grafana")
WITH_DEFINITIONS = ("01-defaults", "04-labels-and-annotations", "06-definitions-not-kept")


def manifest(helm, file):
    """Render a file of values; returns text, in most cases without the definitions, which are large and the same."""
    text = template(helm, "--values", file)
    if file.stem in WITH_DEFINITIONS:
        return text
    kept = [one for one in text.split("---\n") if "\nkind: CustomResourceDefinition\n" not in one]
    return "---\n".join(kept)


@pytest.fixture(scope="module")
def rendered(helm):
    """The manifest of each file of values, as text."""
    return {file.stem: manifest(helm, file) for file in FILES}


@pytest.fixture(scope="module")
def namespaces(kubectl):
    """The namespaces that the values name; pods in the operator's must keep to the standard `restricted`."""
    for name in NAMESPACES:
        kubectl("apply", "--filename", "-", stdin=f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")
    kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    kubectl("wait", "--for=create", "serviceaccount/default", "--namespace", NAMESPACE, "--timeout=60s")


def test_there_are_many_sets_of_values():
    assert len(FILES) >= 30


def test_helm_has_no_complaint(helm):
    helm("lint", "--strict", CHART)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_rendering_again_gives_the_same_bytes(helm, rendered, file):
    assert manifest(helm, file) == rendered[file.stem]


def test_all_is_valid_by_the_schemas_of_the_api_server(rendered, kubectl, kubeconform, tmp_path):
    kinds = {(one["apiVersion"], one["kind"]) for text in rendered.values() for one in objects(text)}
    schemas, manifests = tmp_path / "schemas", tmp_path / "manifests"
    schemas.mkdir()
    manifests.mkdir()
    write_schemas(kubectl, kinds, schemas)
    for name, text in rendered.items():
        (manifests / f"{name}.yaml").write_text(text)
    options = ("-schema-location", f"{schemas}/{LOCATION}", "-summary", "-output", "json")
    answer = json.loads(kubeconform.run(*options, str(manifests)).stdout)
    summary = answer["summary"]

    assert not answer["resources"]
    assert summary["valid"] == sum(len(objects(text)) for text in rendered.values())
    assert summary["skipped"] == 0


def test_the_schemas_refuse_what_the_api_server_refuses(kubectl, kubeconform, tmp_path):
    write_schemas(kubectl, {("v1", "Service")}, tmp_path)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"prots": []}}
    refused = kubeconform.run("-schema-location", f"{tmp_path}/{LOCATION}", stdin=yaml.safe_dump(service))

    assert refused.returncode == 1
    assert "prots" in refused.stdout


@pytest.mark.parametrize("name", NAMES)
def test_an_api_server_takes_it_and_knows_every_field(rendered, kubectl, namespaces, name):
    options = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = kubectl("apply", *options, "--filename", "-", stdin=rendered[name])

    assert len(said.splitlines()) == len(objects(rendered[name]))


def test_pods_keep_to_the_pod_security_standard_restricted(rendered, kubectl, namespaces):
    pods = [pod_of(name, text) for name, text in rendered.items()]
    kubectl("create", "--dry-run=server", "--filename", "-", stdin=yaml.safe_dump_all(pods))
    pods[0]["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    refused = kubectl.run("create", "--dry-run=server", "--filename", "-", stdin=yaml.safe_dump(pods[0]))

    assert 'violates PodSecurity "restricted' in refused.stderr


def pod_of(name, text):
    """The pod that the Deployment would make; its account need not be there."""
    (deployment,) = of_kind(objects(text), "Deployment")
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**template["spec"], "serviceAccountName": "default"},
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_operator_reads_its_configuration(rendered, tmp_path, name):
    found = objects(rendered[name])
    (content,) = [one["data"]["config.yaml"] for one in of_kind(found, "ConfigMap") if "config.yaml" in one["data"]]
    (tmp_path / "config.yaml").write_text(content)
    configuration = load(str(tmp_path / "config.yaml"))
    ((deployment,), (service,)) = of_kind(found, "Deployment"), of_kind(found, "Service")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert ports.get("webhooks", configuration.webhook.port) == configuration.webhook.port
    assert ("webhooks" in ports) is configuration.webhook.enable
    assert configuration.metrics.bind_address == (f":{ports['metrics']}" if "metrics" in ports else "0")
    assert configuration.health.health_probe_bind_address == (f":{ports['health']}" if "health" in ports else "0")
    assert ports["status"] == configuration.status_server.port
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
    assert configuration.cert_management.webhook_service_name == service["metadata"]["name"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    needs_files = (
        configuration.webhook.enable or configuration.takes_reports
    ) and not configuration.cert_management.enable
    assert (configuration.webhook.cert_dir in mounted) is needs_files


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_no_label_keeps_monitors_and_services_from_what_they_select(render, kind):
    labels = {"app.kubernetes.io/part-of": "ml-platform", "app.kubernetes.io/name": "mine", "team": "x"}
    found = render(
        values={
            "commonLabels": labels,
            "monitoring": {f"{kind[0].lower()}{kind[1:]}": {"enabled": True}},
            "manager": {"labels": labels, "selectorLabels": {"app.kubernetes.io/name": "theirs", "more": "z"}},
        }
    )

    (deployment,), (service,) = ([one for one in found if one["kind"] == kind] for kind in ("Deployment", "Service"))
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    (monitor,) = [one for one in found if one["kind"] == kind]
    target = pods if kind == "PodMonitor" else service["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pods.items()
    assert service["spec"]["selector"].items() <= pods.items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= target.items()
    assert (pods["app.kubernetes.io/name"], pods["more"], pods["team"]) == ("theirs", "z", "x")
