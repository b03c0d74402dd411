"""Events of the framework as people see them: through core/v1, where kubectl looks, and with kubectl itself."""

import asyncio
from contextlib import asynccontextmanager

import anyio
import pytest

from ktrain.api import core
from ktrain.api.core import CONFIG_MAPS, EVENTS, NAMESPACES, untyped
from ktrain.api.meta import Key, Object, Resource
from ktrain.framework import EventRecorder

from ..programs import KUBECTL, needs_kubectl

CORE_EVENTS = untyped(core.CORE_EVENTS)

ROLES = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", namespaced=True, type=Object)


@pytest.fixture
def reporting(control_plane):
    """`async with reporting() as recorder:` sends events until the block ends, and then what is left."""

    @asynccontextmanager
    async def run(**options):
        client = control_plane.client("test")
        named = {"component": "ktrain.test/site", "instance": "replica-1"}
        recorder = EventRecorder(client, control_plane.env, **named, **options)
        async with anyio.create_task_group() as tasks:
            await tasks.start(recorder.run)
            yield recorder
            tasks.cancel_scope.cancel()

    return run


@pytest.fixture
async def subject(control_plane, config_map):
    return await control_plane.client().create(CONFIG_MAPS, config_map("subject"))


async def test_an_event_has_the_core_fields_that_kubectl_describe_selects_and_shows(control_plane, reporting, subject):
    client = control_plane.client()
    async with reporting() as recorder:
        for _ in range(3):
            related = (NAMESPACES, {"metadata": {"name": control_plane.namespace, "uid": "n"}})
            recorder.event(CONFIG_MAPS, subject, reason="Seen", message="it is there", type="Warning", related=related)

    chosen = {
        "involvedObject.name": "subject",
        "involvedObject.namespace": control_plane.namespace,
        "involvedObject.kind": "ConfigMap",
        "involvedObject.uid": subject.metadata.uid,
    }
    selector = ",".join(f"{name}={value}" for name, value in chosen.items())
    (event,) = (await client.list(CORE_EVENTS, control_plane.namespace, field_selector=selector)).items
    assert [event[name] for name in ("reason", "message", "type", "action")] == [
        "Seen",
        "it is there",
        "Warning",
        "Reconcile",
    ]
    assert (event["reportingComponent"], event["reportingInstance"]) == ("ktrain.test/site", "replica-1")
    assert (event["series"]["count"], event["related"]["kind"]) == (3, "Namespace")
    assert event["eventTime"] <= event["series"]["lastObservedTime"]


async def test_an_event_through_the_older_api_has_what_older_clients_look_for(control_plane, reporting, subject):
    async with reporting(older=True) as recorder:
        for _ in range(3):
            recorder.event(CONFIG_MAPS, subject, reason="Seen", message="it is there")

    (old,) = (await control_plane.client().list(CORE_EVENTS, control_plane.namespace)).items
    (new,) = (await control_plane.client().list(untyped(EVENTS), control_plane.namespace)).items
    assert (old["count"], old["eventTime"], old["source"]) == (3, None, {"component": "ktrain.test/site"})
    assert old["firstTimestamp"] <= old["lastTimestamp"]
    assert (new["note"], new["deprecatedFirstTimestamp"]) == ("it is there", old["firstTimestamp"])


async def test_many_alike_become_one_and_the_longest_note_is_taken(control_plane, reporting, subject):
    async with reporting() as recorder:
        for n in range(30):
            recorder.event(CONFIG_MAPS, subject, reason="Failed", message=f"{n}: " + "\u00e9" * 2000)

    found = (await control_plane.client().list(untyped(EVENTS), control_plane.namespace)).items
    assert len(found) == 10
    (combined,) = [event for event in found if event["note"].startswith("(combined from similar events): ")]
    assert combined["series"]["count"] == 21


async def test_an_event_of_a_cluster_scoped_object_lies_in_the_default_namespace(control_plane, reporting):
    client = control_plane.client()
    namespace = await client.get(NAMESPACES, control_plane.namespace)
    async with reporting() as recorder:
        recorder.event(NAMESPACES, namespace, reason="Seen", message="x")
    found = [
        event
        for event in (await client.list(untyped(EVENTS), "default")).items
        if event["regarding"].get("uid") == namespace.metadata.uid
    ]
    assert [event["reason"] for event in found] == ["Seen"]
    await client.delete(EVENTS, Key("default", found[0]["metadata"]["name"]))


@pytest.mark.e2e
@needs_kubectl
async def test_kubectl_shows_events(control_plane, reporting, subject):
    async with reporting() as recorder:
        for _ in range(3):
            recorder.event(CONFIG_MAPS, subject, reason="Seen", message="it is there", type="Warning")

    async def kubectl(*words):
        options = ("--kubeconfig", str(await control_plane.kubeconfig()), "-n", control_plane.namespace)
        process = await asyncio.create_subprocess_exec(
            KUBECTL, *options, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        return output.decode()

    for words in (("describe", "configmap", "subject"), ("get", "events"), ("events",)):
        shown = await kubectl(*words)
        (line,) = [one for one in shown.splitlines() if "it is there" in one] or [shown]
        assert "Warning" in line
        assert "Seen" in line
        if words == ("describe", "configmap", "subject"):
            assert "(x3 over" in line
            assert "ktrain.test/site" in line
        else:
            assert "<unknown>" not in line
            assert "configmap/subject" in line.lower()


@pytest.mark.parametrize("name", ["system:node", "UPPER", f"{'a' * 229}-b", "a..b"])
async def test_an_object_of_any_name_can_have_events(control_plane, reporting, name):
    role = {"metadata": {"name": name, "namespace": control_plane.namespace, "uid": f"uid of {name}"}}
    async with reporting() as recorder:
        recorder.event(ROLES, role, reason="Seen", message="it is there")

    (event,) = (await control_plane.client().list(untyped(EVENTS), control_plane.namespace)).items
    assert event["regarding"]["name"] == name
