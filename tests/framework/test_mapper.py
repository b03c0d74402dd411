"""From names of kinds to resources, on a scripted server of either age."""

import asyncio

import pytest

from ktrain.api.core import CONFIG_MAPS, ConfigMap
from ktrain.framework.client.client import Client
from ktrain.framework.client.mapper import COOL_DOWN_S, RestMapper
from ktrain.framework.errors import DecodeError, NoMatch
from ktrain.testing.time import simulate


def aggregated(*groups):
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [
                        {
                            "resource": plural,
                            "responseKind": {"kind": kind},
                            "scope": scope,
                            "singularResource": kind.lower(),
                            "shortNames": [plural[:2]],
                        }
                        for kind, plural, scope in kinds
                    ],
                }
                for version, kinds in versions.items()
            ],
        }
        for name, versions in groups
    ]
    return 200, {"kind": "APIGroupDiscoveryList", "items": items}


CORE = aggregated(
    (
        "",
        {
            "v1": [
                ("ConfigMap", "configmaps", "Namespaced"),
                ("Node", "nodes", "Cluster"),
                ("Event", "events", "Namespaced"),
            ]
        },
    )
)
GROUPS = aggregated(
    ("apps", {"v1": [("Deployment", "deployments", "Namespaced")]}),
    ("events.k8s.io", {"v1": [("Event", "events", "Namespaced")]}),
    (
        "example.dev",
        {
            "v2": [("Widget", "widgets", "Namespaced")],
            "v1": [("Widget", "widgets", "Namespaced"), ("Old", "olds", "Cluster")],
        },
    ),
)
PLAIN = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}},
            {
                "name": "example.dev",
                "versions": [{"version": "v2alpha1"}, {"version": "v1"}, {"version": "v0"}],
                "preferredVersion": {"version": "v1"},
            },
        ],
    },
    "/api/v1": {
        "resources": [{"name": "pods", "kind": "Pod", "namespaced": True}, {"name": "pods/log", "kind": "Pod"}]
    },
    "/apis/apps/v1": {
        "resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True, "shortNames": ["deploy"]}]
    },
    "/apis/example.dev/v1": {"resources": [{"name": "widgets", "kind": "Widget"}]},
    "/apis/example.dev/v2alpha1": {"resources": [{"name": "widgets", "kind": "Widget"}]},
}


def map_on(script, use):
    async def main(env):
        return await use(RestMapper(Client(script, env, field_manager="me")), env)

    return simulate(main)


def test_kinds_are_found_by_kind_by_name_by_version_and_by_manifest(script):
    script.answers += [CORE, GROUPS]

    async def use(mapper, env):
        typed = await mapper.for_kind("ConfigMap", type=ConfigMap)
        found = [
            await mapper.for_kind("Widget"),
            await mapper.for_kind("Widget", group="example.dev", version="v1"),
            await mapper.for_kind("Old"),
            await mapper.for_name("deployments"),
            await mapper.for_name("deployment", group="apps"),
            await mapper.for_name("no"),
            await mapper.for_object({"apiVersion": "v1", "kind": "Event"}),
            await mapper.for_object({"apiVersion": "events.k8s.io/v1", "kind": "Event"}),
        ]
        return typed, [(each.api_version, each.plural, each.namespaced) for each in found]

    typed, found = map_on(script, use)
    assert typed == CONFIG_MAPS
    assert found == [
        ("example.dev/v2", "widgets", True),
        ("example.dev/v1", "widgets", True),
        ("example.dev/v1", "olds", False),
        ("apps/v1", "deployments", True),
        ("apps/v1", "deployments", True),
        ("v1", "nodes", False),
        ("v1", "events", True),
        ("events.k8s.io/v1", "events", True),
    ]
    assert [call.path for call in script.calls] == ["/api", "/apis"]


def test_an_old_server_is_asked_for_a_group_when_that_is_needed(script):
    async def use(mapper, env):
        found = [await mapper.for_kind("Deployment", group="apps"), await mapper.for_name("deploy", group="apps")]
        before = [call.path for call in script.calls]
        widget = await mapper.for_kind("Widget")
        return found, before, widget

    class Answers:
        async def request(self, method, path, **options):
            script.answers.append((200, PLAIN[path]) if path in PLAIN else (404, {"code": 404}))
            return await script.request(method, path, **options)

    async def main(env):
        return await use(RestMapper(Client(Answers(), env, field_manager="me")), env)

    found, before, widget = simulate(main)
    assert [(each.api_version, each.plural) for each in found] == [("apps/v1", "deployments")] * 2
    assert before == ["/api", "/apis", "/apis/apps/v1"]
    assert (widget.version, widget.namespaced) == ("v1", False)


def test_a_kind_that_comes_later_is_found_and_a_misspelt_one_does_not_hammer_the_server(script):
    script.answers += [CORE, aggregated(), CORE, GROUPS, CORE, GROUPS]

    async def use(mapper, env):
        for _ in range(100):
            with pytest.raises(NoMatch):
                await mapper.for_kind("Widget")
        await env.clock.sleep(COOL_DOWN_S)
        found = await mapper.for_kind("Widget")
        await env.clock.sleep(COOL_DOWN_S)
        for _ in range(100):
            with pytest.raises(NoMatch):
                await mapper.for_kind("Wodget")
        return found.plural

    assert map_on(script, use) == "widgets"
    assert len(script.calls) == 6


def test_many_who_ask_at_once_make_one_request_for_each_document(script):
    script.answers += [CORE, GROUPS]

    async def use(mapper, env):
        return await asyncio.gather(*(mapper.for_kind("Node") for _ in range(50)))

    assert {each.plural for each in map_on(script, use)} == {"nodes"}
    assert len(script.calls) == 2


def test_what_is_not_found_is_named_with_what_comes_near(script):
    script.answers += [CORE, GROUPS]

    async def use(mapper, env):
        with pytest.raises(NoMatch, match=r"kind Deploymnet: .* does not serve it; there is Deployment \(apps/v1\)"):
            await mapper.for_kind("Deploymnet")
        with pytest.raises(NoMatch, match=r"kind Widget in group apps, version v3: .*Widget \(example.dev/v2\)"):
            await mapper.for_kind("Widget", group="apps", version="v3")
        with pytest.raises(NoMatch, match=r"kind Event: several groups .*: Event \(v1\), Event \(events.k8s.io/v1\)"):
            await mapper.for_kind("Event")

    map_on(script, use)


def test_an_answer_that_is_no_discovery_document_is_an_error(script):
    script.answers.append((200, {"items": 1}))

    async def use(mapper, env):
        with pytest.raises(DecodeError, match="what the API server serves"):
            await mapper.for_kind("Widget")

    map_on(script, use)
