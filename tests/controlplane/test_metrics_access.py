"""Who may read metrics, as an API server decides."""

import pytest
import yaml
from msgspec import json

from ktrain.framework.serving.authorization import Authorizer

from ..waiting import until


@pytest.fixture
def authorizer(control_plane):
    return Authorizer(control_plane.client(), control_plane.env)


async def test_the_api_servers_administrator_may_read_and_a_made_up_token_may_not(control_plane, authorizer):
    config = yaml.safe_load((await control_plane.kubeconfig()).read_text())
    token = config["users"][0]["user"]["token"]
    assert (await authorizer.check(f"Bearer {token}", "GET", "/metrics")).code == 200
    assert (await authorizer.check("Bearer made-up", "GET", "/metrics")).code == 401


async def test_a_service_account_may_read_once_it_has_the_right(control_plane, authorizer):
    client = control_plane.client()
    namespace = control_plane.namespace
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper", "namespace": namespace}}
    await client.raw("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", body=account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/scraper/token"
    token = json.decode((await client.raw("POST", path, body=request)).body)["status"]["token"]

    verdict = await authorizer.check(f"Bearer {token}", "GET", "/metrics")
    assert (verdict.code, verdict.reason) == (403, f"system:serviceaccount:{namespace}:scraper may not get /metrics")

    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    name = f"{namespace}-scraper"
    role = {**api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}
    subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {
        **api,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [subject],
        "roleRef": reference,
    }
    await client.raw("POST", f"{rbac}/clusterroles", body=role)
    await client.raw("POST", f"{rbac}/clusterrolebindings", body=binding)
    try:
        # Others, as the first remembers for a while what was denied.
        async def granted():
            fresh = Authorizer(client, control_plane.env)
            return fresh if (await fresh.check(f"Bearer {token}", "GET", "/metrics")).code == 200 else None

        fresh = await until(granted)
        assert (await fresh.check(f"Bearer {token}", "POST", "/metrics")).code == 403
        assert (await fresh.check(f"Bearer {token}", "GET", "/debug")).code == 403
    finally:
        await client.raw("DELETE", f"{rbac}/clusterrolebindings/{name}")
        await client.raw("DELETE", f"{rbac}/clusterroles/{name}")
