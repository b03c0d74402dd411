"""ResourceQuotas: what they count, what they refuse, and what their status says."""

from functools import partial

import pytest

from ...waiting import until


def pod(name, requests=None, limits=None, **spec):
    resources = {"requests": requests or {}, "limits": limits or {}}
    container = {"name": "c", "image": "x", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


@pytest.fixture
def quota(api):
    async def quota(name="q", **spec):
        return await api.create("resourcequotas", {"metadata": {"name": name}, "spec": spec})

    return quota


async def refusal(api, plural, body):
    answer = await api.send("POST", api.path(plural), body)
    assert answer.status == 403, answer
    return answer.body["message"].partition(" is forbidden: ")[2]


async def counted(api, **used):
    """Wait until the status of the quota `q` says so."""
    quota = partial(api.send, "GET", api.path("resourcequotas", "q"))
    await until(quota, lambda found: found.body.get("status", {}).get("used", {}) == used, within_s=5, every_s=0.01)


async def test_no_more_objects_are_made_than_a_quota_gives(api, quota):
    await quota(hard={"count/configmaps": "1", "secrets": "0"})
    await api.create("configmaps", api.config_map("a"))
    assert await refusal(api, "configmaps", api.config_map("b")) == (
        "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"
    )
    assert "exceeded quota: q, requested: secrets=1" in await refusal(api, "secrets", {"metadata": {"name": "s"}})
    await api.send("DELETE", api.path("configmaps", "a"))
    await api.create("configmaps", api.config_map("b"))


async def test_what_pods_ask_for_is_added_up(api, quota):
    await quota(hard={"requests.cpu": "1", "limits.memory": "1Gi", "pods": "9"})
    small = {"requests": {"cpu": "600m"}, "limits": {"memory": "300Mi"}}
    await api.create("pods", pod("a", **small))
    assert await refusal(api, "pods", pod("b", **small)) == (
        "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
    )
    text = "failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    assert await refusal(api, "pods", pod("b")) == text


async def test_a_finished_pod_takes_nothing(api, quota):
    await quota(hard={"pods": "1", "count/pods": "2"})
    await api.create("pods", pod("a"))
    await api.send("PATCH", api.path("pods", "a", "status"), {"status": {"phase": "Succeeded"}}, api.MERGE)
    await api.create("pods", pod("b"))
    assert "exceeded quota: q, requested: count/pods=1,pods=1" in await refusal(api, "pods", pod("c"))


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, {}, {"requests": {"cpu": "1"}}),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 5}),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}},
            {},
            {"priorityClassName": "system-node-critical"},
        ),
    ],
)
async def test_a_scope_selects_the_pods_that_count(api, quota, spec, inside, outside):
    await quota(hard={"pods": "0"}, **spec)
    assert "exceeded quota: q, requested: pods=1" in await refusal(api, "pods", pod("a", **inside))
    await api.create("pods", pod("b", **outside))


async def test_the_size_of_claims_counts_and_so_does_their_growth(api, quota):
    await quota(hard={"requests.storage": "3Gi", "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "fast"}
    await api.create("persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": spec})
    refused = await refusal(api, "persistentvolumeclaims", {"metadata": {"name": "b"}, "spec": spec})
    assert "fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,requests.storage=2Gi, used:" in refused


async def test_the_status_follows_what_is_there(api, quota):
    await api.create("configmaps", api.config_map("a"))
    await quota(hard={"configmaps": "5", "requests.memory": "1Gi"})
    await counted(api, **{"configmaps": "1", "requests.memory": "0"})
    await api.create("configmaps", api.config_map("b"))
    await api.create("pods", pod("p", {"memory": "100Mi"}))
    await counted(api, **{"configmaps": "2", "requests.memory": "100Mi"})
    await api.send("DELETE", api.path("configmaps", "a"))
    await counted(api, **{"configmaps": "1", "requests.memory": "100Mi"})


async def test_a_quota_of_another_namespace_is_no_matter(api, quota):
    await quota(hard={"configmaps": "0"})
    answer = await api.send("POST", "/api/v1/namespaces/kube-system/configmaps", api.config_map("a"))
    assert answer.status == 201
