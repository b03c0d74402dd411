"""What webhooks and policies are shown of requests that store nothing: connects, bindings, evictions, tokens."""

from functools import partial

import msgspec
import pytest

from ktrain.framework.webhook import Allowed, Denied, defaulter

from ..waiting import until

PODS = "/api/v1/namespaces/{ns}/pods"
GROUP = "/apis/admissionregistration.k8s.io/v1/"
EVERYTHING = ({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]},)
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
BINDING = {"metadata": {"name": "p"}, "target": {"name": "n"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}


def options(kind, **rest):
    return {"kind": kind, "apiVersion": "v1", **rest}


CONNECTS = {
    "exec?command=a&command=b&stdin=true&stdout=1": options(
        "PodExecOptions", command=["a", "b"], stdin=True, stdout=True
    ),
    "exec?command=a&container=c&stdout=false&stderr=true&tty=any": options(
        "PodExecOptions", command=["a"], container="c", stderr=True, tty=True
    ),
    "exec": options("PodExecOptions", command=None),
    "attach?tty=true": options("PodAttachOptions", tty=True),
    "portforward?ports=80,81&ports=82": options("PodPortForwardOptions", ports=[80, 81, 82]),
    "portforward": options("PodPortForwardOptions"),
}


@pytest.fixture
def pod(ask):
    """`await pod()` makes one, asking again while a webhook that comes into force lets nothing through."""

    async def make():
        await until(lambda: ask("POST", PODS, POD), lambda said: said.status == 201)

    return make


async def in_force(ask, seen):
    """A server learns of a configuration in its own time."""
    attempt = {"metadata": {"name": "x"}}
    await until(lambda: ask("POST", "/api/v1/namespaces/{ns}/configmaps?dryRun=All", attempt), lambda _: seen)
    seen.clear()


async def test_a_webhook_is_shown_the_options_of_a_connect_before_the_pod_is_looked_for(webhooks, ask, pod):
    seen, asked = [], {}

    def handler(request):
        seen.append(request)
        return Allowed(warnings=("careful",))

    async with webhooks(validate=handler, rules=EVERYTHING):
        await pod()
        await in_force(ask, seen)
        for method in ("GET", "POST"):
            for query in CONNECTS:
                seen.clear()
                said = await ask(method, f"{PODS}/p/{query}")
                assert (said.status, said.body["message"]) == (400, "pod p does not have a host assigned")
                asked[method, query] = seen[0].object
                assert "careful" in said.warnings
        assert asked == {(method, query): told for method in ("GET", "POST") for query, told in CONNECTS.items()}
        seen.clear()
        assert (await ask("POST", f"{PODS}/nope/exec?command=a")).status == 404
        (request,) = seen
        wrong = await ask("POST", f"{PODS}/p/portforward?ports=x")
    assert (request.operation, request.name, request.sub_resource) == ("CONNECT", "nope", "exec")
    assert (request.kind.kind, request.resource.resource, request.options) == ("PodExecOptions", "pods", None)
    expected = 'cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax'
    assert (wrong.status, wrong.body["message"], len(seen)) == (400, expected, 1)


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_nobody_connects_only_to_try(ask, pod, subresource):
    await pod()
    said = await ask("POST", f"{PODS}/p/{subresource}?command=a&dryRun=All")

    assert (said.status, said.body["message"]) == (400, "dryRun is not supported")


async def test_a_webhook_may_change_the_options_of_a_connect(webhooks, ask, pod):
    def change(obj):
        if obj["kind"] == "PodExecOptions":
            obj["container"] = "other"

    async with webhooks(mutate=defaulter(change), rules=EVERYTHING):
        await pod()
        exec_ = partial(ask, "POST", f"{PODS}/p/exec?command=a")
        said = await until(exec_, lambda said: "not valid" in said.body["message"])
    assert (said.status, said.body["message"]) == (400, "container other is not valid for pod p")


POSTED = {
    "binding": (f"{PODS}/p/binding", BINDING, "pods/binding", ("", "Binding")),
    "legacy binding": ("/api/v1/namespaces/{ns}/bindings", BINDING, "bindings/", ("", "Binding")),
    "eviction": (f"{PODS}/p/eviction", EVICTION, "pods/eviction", ("policy", "Eviction")),
}


@pytest.mark.parametrize("name", POSTED)
async def test_what_is_posted_to_a_subresource_is_shown_as_a_creation_and_may_be_refused(webhooks, ask, pod, name):
    path, body, resource, kind = POSTED[name]
    seen = []

    def handler(request):
        seen.append(request)
        return Denied("no") if request.kind.kind in ("Binding", "Eviction") else Allowed()

    async with webhooks(validate=handler, rules=EVERYTHING):
        await pod()
        await in_force(ask, seen)
        said = await ask("POST", f"{path}?fieldManager=me&dryRun=All", body)
        (request,) = seen
        there = (await ask("GET", f"{PODS}/p")).body
    assert (said.status, said.body["message"]) == (
        403,
        'admission webhook "hook.ktrain.test" denied the request: no',
    )
    assert (request.operation, f"{request.resource.resource}/{request.sub_resource}") == ("CREATE", resource)
    assert (request.kind.group, request.kind.kind) == kind
    assert (request.name, request.dry_run) == ("p", True)
    assert request.options == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "fieldManager": "me",
    }
    managed = request.object["metadata"].pop("managedFields", [{}])[0]
    assert (managed.get("manager", "me"), managed.get("subresource", "")) == (
        "me",
        request.sub_resource if managed else "",
    )
    assert request.object["metadata"] == {"name": "p", "namespace": request.namespace}
    assert ("nodeName" in there["spec"], "deletionTimestamp" in there["metadata"]) == (False, False)


async def test_an_eviction_is_asked_about_once_and_its_deletion_is_not(webhooks, ask, pod):
    seen = []

    def handler(request):
        seen.append(request)
        return Allowed()

    async with webhooks(validate=handler, rules=EVERYTHING):
        await pod()
        await in_force(ask, seen)
        said = await ask("POST", f"{PODS}/p/eviction", EVICTION)
        unnamed = await ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "q"}})
    assert (said.status, unnamed.status) == (201, 400)
    assert [(one.operation, one.kind.kind) for one in seen] == [("CREATE", "Eviction")]


async def test_a_request_for_a_token_is_shown_without_the_token(webhooks, ask):
    seen = []

    def handler(request):
        seen.append(request)
        return Allowed()

    async with webhooks(validate=handler, rules=EVERYTHING):
        await in_force(ask, seen)
        path = "/api/v1/namespaces/{ns}/serviceaccounts/default"
        await until(lambda: ask("GET", path), lambda said: said.status == 200)
        seen.clear()
        said = await ask("POST", f"{path}/token", TOKEN)
    (request,) = seen
    assert said.body["status"]["token"]
    assert (request.operation, request.sub_resource, request.kind.kind) == ("CREATE", "token", "TokenRequest")
    assert request.object["status"] == {"token": "", "expirationTimestamp": None}
    assert request.object["spec"] == {"audiences": ["a"], "expirationSeconds": 3600, "boundObjectRef": None}
    assert request.object["metadata"]["uid"] == said.body["metadata"]["uid"]


POLICIES = {
    "exec": ("CONNECT", "POST", f"{PODS}/p/exec?command=sh&command=-c", None, "object.command.join(' ')", "sh -c"),
    "attach": ("CONNECT", "GET", f"{PODS}/p/attach?stdin=true", None, "string(object.stdin)", "true"),
    "portforward": ("CONNECT", "POST", f"{PODS}/p/portforward?ports=80", None, "string(object.ports[0])", "80"),
    "binding": ("CREATE", "POST", f"{PODS}/p/binding?dryRun=All", BINDING, "object.target.name", "n"),
    "eviction": ("CREATE", "POST", f"{PODS}/p/eviction?dryRun=All", EVICTION, "object.kind", "Eviction"),
}


@pytest.mark.parametrize("subresource", POLICIES)
async def test_a_policy_may_refuse_it(ask, control_plane, pod, subresource):
    operation, method, path, body, expression, told = POLICIES[subresource]
    name = control_plane.namespace
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [f"pods/{subresource}"]}
    said = f"request.operation + ' of ' + request.subResource + ': ' + {expression}"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "request.name == 'other'", "message": "no", "messageExpression": said}],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    await pod()
    for plural, given in (("validatingadmissionpolicies", spec), ("validatingadmissionpolicybindings", binding)):
        made = await ask("POST", f"{GROUP}{plural}", {"metadata": {"name": name}, "spec": given})
        assert made.status == 201, made
    try:
        # Each may be done for as long as the policy is not in force, and again.
        answer = await until(lambda: ask(method, path, body), lambda said: said.status == 422, within_s=30)
    finally:
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            await ask("DELETE", f"{GROUP}{plural}/{name}")
    expected = f"denied request: {operation} of {subresource}: {told}"
    assert answer.body["message"].startswith('pods "p" is forbidden: ValidatingAdmissionPolicy')
    assert answer.body["message"].endswith(expected)
    assert msgspec.json.encode(answer.body["details"]["causes"]).count(expected.encode()) == 1
