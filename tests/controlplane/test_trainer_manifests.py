"""config/trainer: what is to be applied to a cluster fits together, and an API server takes it."""

from pathlib import Path

import yaml
from msgspec import json

from ktrain.api.documents import resource_of
from ktrain.cli.config_file import load

from ..waiting import until

CONFIG = Path(__file__).parents[2] / "config" / "trainer"
FILES = ("operator.yaml", "rbac.yaml", "webhooks.yaml")


def documents():
    return [document for file in FILES for document in yaml.safe_load_all((CONFIG / file).read_text())]


def of_kind(kind):
    return [document for document in documents() if document["kind"] == kind]


async def test_an_api_server_takes_them_and_knows_every_field(control_plane):
    client = control_plane.client()
    for document in documents():
        if document["kind"] == "Namespace":
            await client.apply(resource_of(document), document)
            continue
        options = [("dryRun", "All"), ("fieldManager", "test"), ("fieldValidation", "Strict")]
        where = resource_of(document).path(document["metadata"].get("namespace", ""))
        await client.raw("POST", where, query=options, body=document)


def test_the_operator_is_configured_as_its_service_and_webhooks_say(tmp_path):
    ((config_map,), (service,), (deployment,)) = map(of_kind, ("ConfigMap", "Service", "Deployment"))
    (tmp_path / "config.yaml").write_text(config_map["data"]["config.yaml"])
    configuration = load(str(tmp_path / "config.yaml"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert service["metadata"]["name"] == configuration.cert_management.webhook_service_name
    assert of_kind("Secret")[0]["metadata"]["name"] == configuration.cert_management.webhook_secret_name
    assert ports["webhooks"] == configuration.webhook.port
    assert f":{ports['metrics']}" == configuration.metrics.bind_address
    assert f":{ports['health']}" == configuration.health.health_probe_bind_address
    reports = next(port for port in service["spec"]["ports"] if port["targetPort"] == "status")
    assert reports["port"] == ports["status"] == configuration.status_server.port
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
    callers = [*of_kind("MutatingWebhookConfiguration"), *of_kind("ValidatingWebhookConfiguration")]
    called = [webhook["clientConfig"]["service"] for caller in callers for webhook in caller["webhooks"]]
    assert {(one["namespace"], one["name"]) for one in called} == {
        (service["metadata"]["namespace"], service["metadata"]["name"])
    }


def test_its_account_has_the_rights():
    (account,) = of_kind("ServiceAccount")
    roles = {(role["kind"], role["metadata"]["name"]) for kind in ("Role", "ClusterRole") for role in of_kind(kind)}
    for binding in (*of_kind("RoleBinding"), *of_kind("ClusterRoleBinding")):
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == tuple(
            account["metadata"][key] for key in ("name", "namespace")
        )
        roles.remove((binding["roleRef"]["kind"], binding["roleRef"]["name"]))
    assert not roles
    (secrets,) = [rule for rule in of_kind("Role")[0]["rules"] if rule["resources"] == ["secrets"]]
    (secret,) = of_kind("Secret")
    assert secrets["resourceNames"] == [secret["metadata"]["name"]]


async def test_every_user_reads_the_version_as_kubeflows_sdk_does(control_plane):
    client = control_plane.client()
    for document in yaml.safe_load_all((CONFIG / "public.yaml").read_text()):
        await client.apply(resource_of(document), document)
    user = await control_plane.add_user("somebody")
    where = "/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public"
    # A server learns of rights in its own time.
    found = await until(lambda: user.request("GET", where), lambda answer: answer.status != 403)

    assert json.decode(found.body)["data"] == {"kubeflow_trainer_version": "v2.3.0"}
    assert (await user.request("GET", f"{where}-other")).status == 403
