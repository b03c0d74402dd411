"""Services, Secrets, limits, leases, events and classes: what is filled in and what is refused."""

import pytest

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CORE = "/api/v1/namespaces/{ns}"
SERVICES, SECRETS, LIMITS = f"{CORE}/services", f"{CORE}/secrets", f"{CORE}/limitranges"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
EVENTS, NEW_EVENTS = f"{CORE}/events", "/apis/events.k8s.io/v1/namespaces/{ns}/events"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses?dryRun=All"


def named(name="x", **fields):
    return {"metadata": {"name": name}, **fields}


async def test_services_for_the_outside_get_ports_on_nodes_and_lose_them_with_their_type(ask):
    made = (await ask("POST", SERVICES, named(spec={"type": "NodePort", "ports": [{"port": 80}]}))).body["spec"]
    put = (await ask("PUT", f"{SERVICES}/x", named(spec={"type": "NodePort", "ports": [{"port": 80}]}))).body["spec"]
    inside = (await ask("PATCH", f"{SERVICES}/x", {"spec": {"type": "ClusterIP"}}, MERGE)).body["spec"]

    assert made["externalTrafficPolicy"] == "Cluster"
    assert 30000 <= made["ports"][0]["nodePort"] < 32768
    assert (put["ports"], put["clusterIP"]) == (made["ports"], made["clusterIP"])
    assert "nodePort" not in inside["ports"][0]
    assert "externalTrafficPolicy" not in inside


async def test_a_service_that_remembers_its_clients_says_for_how_long(ask):
    spec = {"type": "LoadBalancer", "sessionAffinity": "ClientIP", "ports": [{"port": 80}]}
    made = (await ask("POST", SERVICES, named(spec=spec))).body["spec"]

    assert made["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert made["allocateLoadBalancerNodePorts"] is True


async def test_addresses_of_services_come_from_their_range_and_only_balancers_have_others(ask):
    away = await ask("POST", SERVICES, named(spec={"clusterIP": "192.0.2.1", "ports": [{"port": 80}]}))
    await ask("POST", SERVICES, named("y", spec={"ports": [{"port": 80}]}))
    outside = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
    said = await ask("PATCH", f"{SERVICES}/y/status", outside, MERGE)

    detail = "failed to allocate IP 192.0.2.1: the provided network does not match the current range"
    assert away.causes == {("spec.clusterIPs", f'Invalid value: ["192.0.2.1"]: {detail}')}
    forbidden = "Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    assert said.causes == {("status.loadBalancer.ingress", forbidden)}


INCOMPLETE = {
    "kubernetes.io/tls": {("data[tls.crt]", "Required value"), ("data[tls.key]", "Required value")},
    "kubernetes.io/ssh-auth": {("data[ssh-privatekey]", "Required value")},
    "kubernetes.io/basic-auth": {("data[username]", "Required value"), ("data[password]", "Required value")},
    "kubernetes.io/dockerconfigjson": {("data[.dockerconfigjson]", "Required value")},
    "kubernetes.io/service-account-token": {
        ("metadata.annotations[kubernetes.io/service-account.name]", "Required value")
    },
}


@pytest.mark.parametrize("kind", INCOMPLETE)
async def test_a_secret_has_what_its_type_promises(ask, kind):
    said = await ask("POST", f"{SECRETS}?dryRun=All", named(type=kind))

    assert said.causes == INCOMPLETE[kind]


async def test_what_a_secret_gets_wrong_is_not_repeated(ask):
    said = await ask(
        "POST",
        f"{SECRETS}?dryRun=All",
        named(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "aHVudGVyMg=="}),
    )
    ((field, message),) = said.causes

    assert (field, message.partition(": ")[2].startswith('"<secret contents redacted>"')) == (
        "data[.dockerconfigjson]",
        True,
    )
    assert "hunter2" not in str(said.body)


async def test_limits_are_completed_from_each_other(ask):
    limit = {"type": "Container", "max": {"cpu": "2", "memory": "1024Mi"}, "min": {"cpu": "100m"}}
    said = await ask("POST", f"{LIMITS}?dryRun=All", named(spec={"limits": [limit]}))

    assert said.body["spec"]["limits"] == [
        {
            "type": "Container",
            "max": {"cpu": "2", "memory": "1Gi"},
            "min": {"cpu": "100m"},
            "default": {"cpu": "2", "memory": "1Gi"},
            "defaultRequest": {"cpu": "2", "memory": "1Gi"},
        }
    ]


async def test_limits_that_contradict_each_other_are_refused(ask):
    limit = {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}
    said = await ask("POST", f"{LIMITS}?dryRun=All", named(spec={"limits": [limit]}))
    unknown = await ask("POST", f"{LIMITS}?dryRun=All", named(spec={"limits": [{"type": "Foo"}]}))

    assert said.causes == {("spec.limits[0].min[cpu]", 'Invalid value: "2": min value 2 is greater than max value 1')}
    detail = 'Invalid value: "Foo": must be a standard limit type or fully qualified'
    assert unknown.causes == {("spec.limits[0].type", detail)}


async def test_times_of_leases_are_written_in_utc_and_a_lease_always_has_a_spec(ask):
    made = await ask("POST", LEASES, named(spec={"renewTime": "2026-01-02T05:04:05.000000+02:00"}))
    empty = await ask("POST", LEASES, named("y"))

    assert made.body["spec"] == {"renewTime": "2026-01-02T03:04:05.000000Z"}
    assert empty.body["spec"] == {}


async def test_an_event_of_the_new_api_may_repeat_but_not_change(ask):
    moment = "2026-01-02T03:04:05.123456Z"
    body = named(
        eventTime=moment,
        reportingController="a/b",
        reportingInstance="i",
        action="A",
        reason="R",
        type="Normal",
        note="n",
        regarding={"kind": "Pod", "namespace": "{ns}", "name": "p"},
    )
    await ask("POST", NEW_EVENTS, body)
    series = {"series": {"count": 2, "lastObservedTime": moment}}
    repeated = await ask("PATCH", f"{NEW_EVENTS}/x", series, MERGE)
    changed = await ask("PATCH", f"{NEW_EVENTS}/x", {"note": "other"}, MERGE)
    old = await ask("GET", f"{EVENTS}/x")

    assert (repeated.body["series"]["count"], old.body["message"], old.body["series"]["count"]) == (2, "n", 2)
    assert changed.causes == {("message", 'Invalid value: "other": field is immutable')}


async def test_the_new_api_leaves_out_reporters_that_the_old_one_did_not_name(ask):
    body = named(involvedObject={"namespace": "{ns}"}, reason="R", message="m", type="Normal")
    await ask("POST", EVENTS, body)
    new = (await ask("GET", f"{NEW_EVENTS}/x")).body

    assert new["note"] == "m"
    assert not {"reportingController", "reportingInstance"} & new.keys()


async def test_classes_say_what_is_wrong_with_them(ask):
    policy = await ask("POST", PRIORITIES, named(value=1, preemptionPolicy="Foo"))
    system = await ask("POST", PRIORITIES, named("system-foo", value=1))
    handler = await ask("POST", RUNTIMES, named())
    selector = await ask("POST", RUNTIMES, named(handler="h", overhead={"podFixed": {"cpu": "-1"}}))

    supported = 'Unsupported value: "Foo": supported values: "PreemptLowerPriority", "Never"'
    assert policy.causes == {("preemptionPolicy", supported)}
    ((_field, message),) = system.causes
    assert message.endswith("system-foo is not a known system priority class")
    assert handler.causes == {("handler", "Required value")}
    negative = 'Invalid value: "-1": must be greater than or equal to 0'
    assert selector.causes == {("overhead.limits[cpu]", negative)}
