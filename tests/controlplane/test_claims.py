"""PersistentVolumeClaims stay while pods use them."""

from ..waiting import until

CLAIMS = "/api/v1/namespaces/{ns}/persistentvolumeclaims"
PODS = "/api/v1/namespaces/{ns}/pods"
PROTECTION = "kubernetes.io/pvc-protection"


def claim(name="data", **metadata):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def pod(name, **spec):
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [volume], **spec},
    }


async def gone(ask, name="data"):
    await until(lambda: ask("GET", f"{CLAIMS}/{name}"), lambda said: said.status == 404)


async def test_a_claim_that_nobody_uses_is_protected_and_goes_when_it_is_deleted(ask):
    made = await ask("POST", CLAIMS, claim(finalizers=["example.com/mine"]))
    assert made.body["metadata"]["finalizers"] == ["example.com/mine", PROTECTION]

    await ask("POST", PODS, pod("waits-for-a-node"))
    await ask("DELETE", f"{CLAIMS}/data")
    found = await until(
        lambda: ask("GET", f"{CLAIMS}/data"), lambda said: len(said.body["metadata"]["finalizers"]) == 1
    )
    assert found.body["metadata"]["finalizers"] == ["example.com/mine"]
    patch = {"metadata": {"finalizers": None}}
    await ask("PATCH", f"{CLAIMS}/data", patch, "application/merge-patch+json")
    await gone(ask)


async def test_a_claim_outlives_its_deletion_until_the_last_pod_that_uses_it_is_gone(ask):
    await ask("POST", CLAIMS, claim())
    await ask("POST", PODS, pod("user", nodeName="nowhere"))
    deleted = await ask("DELETE", f"{CLAIMS}/data")
    assert "deletionTimestamp" in deleted.body["metadata"]

    # Whoever lets claims go has had his turn at this one when a later one, which nobody uses, is gone.
    await ask("POST", CLAIMS, claim("unused"))
    await ask("DELETE", f"{CLAIMS}/unused")
    await gone(ask, "unused")
    assert (await ask("GET", f"{CLAIMS}/data")).status == 200
    await ask("DELETE", f"{PODS}/user", {"gracePeriodSeconds": 0})
    await gone(ask)
