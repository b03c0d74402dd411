"""What namespaces and pods get of their service accounts."""

from __future__ import annotations

import asyncio

import pytest

PODS = "/api/v1/namespaces/default/pods"
MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
AUTHORITY = b"-----BEGIN CERTIFICATE-----\n"


def pod(name="p", **spec):
    container = {"name": "c", "image": "i"}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "initContainers": [container | {"name": "i"}], **spec},
    }


@pytest.fixture
def admitting(server, api):
    server.publish_authority(AUTHORITY, admit_accounts=True)
    return api


async def test_every_namespace_has_an_account_which_comes_back(api):
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    account = "/api/v1/namespaces/new/serviceaccounts/default"
    first = await found(api, account)
    await api.send("DELETE", account)
    second = await found(api, account)

    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_there_is_no_authority_before_it_is_published(api):
    assert (await api.send("GET", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt")).status == 404


async def test_every_namespace_has_the_servers_authority_and_only_that(server, api):
    server.publish_authority(AUTHORITY)
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    for namespace in ("default", "kube-system", "new"):
        url = f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"
        assert (await found(api, url))["data"] == {"ca.crt": AUTHORITY.decode()}
    await api.send("PATCH", url, {"data": {"ca.crt": "another", "more": "x"}}, api.MERGE)
    await found(api, url, lambda obj: obj["data"] == {"ca.crt": AUTHORITY.decode()})
    await api.send("DELETE", url)
    assert (await found(api, url))["data"] == {"ca.crt": AUTHORITY.decode()}


async def test_a_pod_mounts_a_token_of_its_own(admitting):
    spec = (await admitting.create("pods", pod()))["spec"]
    [volume] = spec["volumes"]
    name = volume["name"]

    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert (name[:-5], len(name)) == ("kube-api-access-", 21)
    assert volume["projected"] == {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
    }
    mount = {"name": name, "readOnly": True, "mountPath": MOUNT}
    assert [c["volumeMounts"] for c in spec["containers"] + spec["initContainers"]] == [[mount], [mount]]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounts"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
async def test_the_pods_word_on_mounting_counts_before_the_accounts(admitting, of_account, of_pod, mounts):
    account = {"metadata": {"name": "robot"}}
    if of_account is not None:
        account["automountServiceAccountToken"] = of_account
    await admitting.create("serviceaccounts", account)
    wanted = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
    spec = (await admitting.create("pods", pod(serviceAccountName="robot", **wanted)))["spec"]

    assert ("volumes" in spec, "volumeMounts" in spec["containers"][0]) == (mounts, mounts)


async def test_what_a_container_mounts_there_itself_stays(admitting):
    own = {"name": "own", "mountPath": MOUNT}
    body = pod(volumes=[{"name": "own", "emptyDir": {}}])
    for container in body["spec"]["containers"] + body["spec"]["initContainers"]:
        container["volumeMounts"] = [own]
    spec = (await admitting.create("pods", body))["spec"]

    assert [volume["name"] for volume in spec["volumes"]] == ["own"]
    assert spec["containers"][0]["volumeMounts"] == [own]


async def test_pull_secrets_come_from_the_account_unless_the_pod_has_some(admitting):
    await admitting.create("serviceaccounts", {"metadata": {"name": "robot"}, "imagePullSecrets": [{"name": "a"}]})
    given = await admitting.create("pods", pod("p", serviceAccountName="robot"))
    own = await admitting.create("pods", pod("q", serviceAccountName="robot", imagePullSecrets=[{"name": "b"}]))

    assert given["spec"]["imagePullSecrets"] == [{"name": "a"}]
    assert own["spec"]["imagePullSecrets"] == [{"name": "b"}]


async def test_a_pod_of_an_account_that_is_not_there_is_refused(admitting):
    answer = await admitting.send("POST", PODS, pod(serviceAccountName="robot"))

    text = 'pods "p" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    assert (answer.status, answer.body["message"]) == (403, text)


async def test_where_nobody_mounts_nothing_is_mounted_or_refused(api):
    spec = (await api.create("pods", pod(serviceAccountName="robot")))["spec"]

    assert spec["serviceAccountName"] == "robot"
    assert "volumes" not in spec


async def test_a_pod_may_come_as_soon_as_its_namespace(server, admitting):
    await admitting.send("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    answer = await admitting.send("POST", PODS.replace("default", "new"), pod())

    assert answer.status == 201


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "bad"}}]}, "volume with secret"),
        ({"imagePullSecrets": [{"name": "bad"}]}, 'imagePullSecrets[0].name="bad"'),
        (
            {"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "bad"}}]}]},
            "container c with envFrom referencing secret",
        ),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "bad", "key": "k"}}}],
                    }
                ]
            },
            "container c with envVar A referencing secret",
        ),
    ],
)
async def test_an_account_may_say_which_secrets_its_pods_use(admitting, spec, complaint):
    meta = {"name": "robot", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    await admitting.create("serviceaccounts", {"metadata": meta, "secrets": [{"name": "good"}]})
    refused = await admitting.send("POST", PODS, pod("p", serviceAccountName="robot", **spec))
    volumes = [{"name": "v", "secret": {"secretName": "good"}}]
    accepted = await admitting.send("POST", PODS, pod("q", serviceAccountName="robot", volumes=volumes))

    assert (refused.status, accepted.status) == (403, 201)
    assert complaint in refused.body["message"]


async def found(api, path, holds=lambda obj: True):
    """An object that a controller is about to make, or to put right."""
    async with asyncio.timeout(5):
        while True:
            answer = await api.send("GET", path)
            if answer.status == 200 and holds(answer.body):
                return answer.body
            await asyncio.sleep(0)
