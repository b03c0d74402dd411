"""What the API server fills in, keeps and gives up of its own kinds, and whom it warns."""

import secrets

import pytest

from ..waiting import until

MERGE = "application/merge-patch+json"
CORE = "/api/v1/namespaces/{ns}"
SERVICES, CLAIMS, PODS, EVENTS = f"{CORE}/services", f"{CORE}/persistentvolumeclaims", f"{CORE}/pods", f"{CORE}/events"
VOLUMES, NODES = "/api/v1/persistentvolumes", "/api/v1/nodes"
JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
CONTAINERS = [{"name": "c", "image": "i"}]
PORTS = [{"port": 80, "protocol": "TCP", "targetPort": 80}]


def named(name="x", **fields):
    return {"metadata": {"name": name}, **fields}


@pytest.fixture
async def of_the_cluster(ask):
    """`path = await of_the_cluster(plural_path, body)` creates an object with a name of its own; it goes afterwards."""
    made = []

    async def make(path, body):
        name = f"x-{secrets.token_hex(4)}"
        answer = await ask("POST", path, {**body, "metadata": {"name": name}})
        assert answer.status == 201, answer
        made.append(f"{path}/{name}")
        return made[-1]

    yield make
    for path in made:
        await ask("PATCH", f"{path}/status", {"status": {"phase": "Released"}}, MERGE)
        await ask("DELETE", path)


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        (
            {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a/b"},
            {"type": "ClusterIP"},
            {"healthCheckNodePort", "allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"},
        ),
        (
            {"type": "NodePort"},
            {"type": "ExternalName", "externalName": "a.b"},
            {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "externalTrafficPolicy"},
        ),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, {"type": "NodePort"}, {"healthCheckNodePort"}),
    ],
)
async def test_a_service_loses_what_goes_with_the_type_that_it_gives_up(ask, before, after, gone):
    made = (await ask("POST", SERVICES, named(spec={"ports": PORTS, **before}))).body["spec"]
    changed = (await ask("PATCH", f"{SERVICES}/x", {"spec": after}, MERGE)).body["spec"]

    assert gone <= made.keys()
    assert not gone & changed.keys()


async def test_protocols_of_one_port_share_a_port_of_the_nodes_that_is_asked_for(ask):
    one = {"port": 53, "nodePort": 31053}
    both = [{**one, "name": "tcp"}, {**one, "name": "udp", "protocol": "UDP"}]
    others = [{**one, "name": "a"}, {**one, "name": "b", "port": 54}]
    shared = await ask("POST", f"{SERVICES}?dryRun=All", named(spec={"type": "NodePort", "ports": both}))
    taken = await ask("POST", f"{SERVICES}?dryRun=All", named(spec={"type": "NodePort", "ports": others}))

    assert shared.status == 201
    problem = "Invalid value: 31053: provided port is already allocated"
    assert taken.causes == {("spec.ports[1].nodePort", problem)}


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        ({"externalIPs": ["192.0.2.1"]}, "spec.externalIPs is deprecated and may no longer be implemented"),
        ({"trafficDistribution": "PreferClose"}, "is deprecated; use"),
        ({"externalName": "a.b"}, "spec.externalName is ignored when spec.type is not"),
        ({"clusterIP": "None", "sessionAffinity": "ClientIP"}, "spec.SessionAffinity is ignored for headless services"),
    ],
)
async def test_who_asks_a_service_for_what_has_no_effect_is_warned(ask, spec, warning):
    said = await ask("POST", f"{SERVICES}?dryRun=All", named(spec={"ports": PORTS, **spec}))
    refused = await ask("POST", f"{SERVICES}?dryRun=All", named(spec={"ports": [{"port": 0}], **spec}))

    assert warning in said.warnings
    assert (refused.status, refused.warnings) == (422, "")


CLAIM = {"kind": "PersistentVolumeClaim", "name": "other"}
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
OTHER = {"apiGroup": "example.com", "kind": "Thing", "name": "t"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"dataSource": SNAPSHOT}, {"dataSource": SNAPSHOT, "dataSourceRef": SNAPSHOT}),
        ({"dataSource": OTHER}, {}),
        ({"dataSourceRef": OTHER}, {"dataSource": OTHER, "dataSourceRef": OTHER}),
        ({"dataSourceRef": {**CLAIM, "namespace": "elsewhere"}}, {}),
        ({"dataSource": CLAIM}, {key: {**CLAIM, "apiGroup": None} for key in ("dataSource", "dataSourceRef")}),
    ],
)
async def test_where_a_claims_data_comes_from_is_said_under_both_names_or_none(ask, given, kept):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **given}
    said = await ask("POST", f"{CLAIMS}?dryRun=All", named(spec=spec))

    assert {name: value for name, value in said.body["spec"].items() if name.startswith("dataSource")} == kept


async def test_a_volume_outlives_its_deletion_until_it_is_bound_no_more(ask, of_the_cluster):
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    path, unbound = [await of_the_cluster(VOLUMES, {"spec": spec}) for _ in range(2)]
    await ask("PATCH", f"{path}/status", {"status": {"phase": "Bound"}}, MERGE)
    deleted = await ask("DELETE", path)
    await ask("DELETE", unbound)
    await until(lambda: ask("GET", unbound), lambda said: said.status == 404)
    kept = await ask("GET", path)
    await ask("PATCH", f"{path}/status", {"status": {"phase": "Released"}}, MERGE)

    assert deleted.body["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert "deletionTimestamp" in kept.body["metadata"]
    await until(lambda: ask("GET", path), lambda said: said.status == 404)


async def test_a_new_node_takes_no_pods_until_somebody_says_that_it_is_ready(ask, of_the_cluster, control_plane):
    own = {"key": "a", "effect": "NoExecute"}
    path = await of_the_cluster(NODES, {"spec": {"taints": [own], "podCIDR": "192.0.2.0/24"}})
    made = (await ask("GET", path)).body
    assert made["spec"] == {"taints": [own, NOT_READY], "podCIDR": "192.0.2.0/24", "podCIDRs": ["192.0.2.0/24"]}

    ready = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "1500m"}}
    said = (await ask("PATCH", f"{path}/status", {"status": ready}, MERGE)).body
    assert said["status"]["allocatable"] == {"cpu": "1500m"}
    if not control_plane.is_real:  # a real cluster's node controller does it, which is not started for tests
        await until(lambda: ask("GET", path), lambda said: said.body["spec"]["taints"] == [own])


async def test_a_job_takes_the_labels_of_its_template_and_gets_those_that_tie_its_pods_to_it(ask):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    made = (await ask("POST", f"{JOBS}?dryRun=All", named(spec={"template": template}))).body
    own = await ask(
        "POST", f"{JOBS}?dryRun=All", {"metadata": {"name": "x", "labels": {"c": "d"}}, "spec": made["spec"]}
    )

    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert made["metadata"]["labels"]["job-name"] == "x"
    assert own.causes  # the labels are those of another job


async def test_nobody_owns_what_a_new_event_has_before_it_is_written(ask):
    body = named(involvedObject={"namespace": "{ns}"}, reason="R", message="m", type="Normal")
    made = (await ask("POST", EVENTS, body)).body
    (entry,) = made["metadata"]["managedFields"]

    assert (made["eventTime"], made["firstTimestamp"], made["reportingComponent"]) == (None, None, "")
    assert entry["fieldsV1"].keys() == {"f:involvedObject", "f:message", "f:reason", "f:type"}


@pytest.mark.parametrize("options", ["stream=All", "stream=Stdout&container=c", "stream=Foo"])
async def test_logs_are_not_split_into_their_streams(ask, options):
    await ask("POST", PODS, named(spec={"containers": CONTAINERS}))
    said = await ask("GET", f"{PODS}/x/log?{options}")

    assert said.status == 422
    assert said.causes == {("stream", "Forbidden: may not be specified")}


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
async def test_what_is_posted_to_a_pod_has_the_options_of_a_creation(ask, subresource):
    await ask("POST", PODS, named(spec={"containers": CONTAINERS}))
    said = await ask("POST", f"{PODS}/x/{subresource}?dryRun=Foo", named(target={"kind": "Node", "name": "n"}))

    assert said.status == 422
    assert said.causes == {("dryRun", 'Unsupported value: ["Foo"]: supported values: "All"')}
