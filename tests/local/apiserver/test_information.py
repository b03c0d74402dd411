"""What is no resource: the list of paths, version, health checks and metrics."""

import json

import pytest

from ktrain.framework.env import system_env
from ktrain.local.apiserver.requests import Request
from ktrain.local.apiserver.server import ApiServer


@pytest.fixture
def ask():
    server = ApiServer(system_env())

    async def send(path, query=(), **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return await server.handle(Request("GET", path, query=query, headers=names))

    return send


async def test_the_root_lists_what_there_is(ask):
    paths = json.loads((await ask("/")).body)["paths"]

    assert {"/api/v1", "/apis/batch", "/apis/batch/v1", "/openapi/v2", "/readyz/ping", "/version"} <= set(paths)
    assert paths == sorted(paths)
    for path in paths:
        assert (await ask(path)).status == 200, path


async def test_the_version_is_that_of_the_schemas_and_says_that_this_is_ktrain(ask):
    found = json.loads((await ask("/version")).body)

    assert found["gitVersion"].startswith(f"v{found['major']}.{found['minor']}.")
    assert found["gitVersion"].endswith("+ktrain")


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/healthz", (), "ok"),
        ("/livez/ping", (), "ok"),
        ("/readyz", [("verbose", "")], "[+]ping ok\n[+]log ok\n[+]store ok\nreadyz check passed\n"),
        (
            "/livez",
            [("verbose", "1"), ("exclude", "log")],
            "[+]ping ok\n[+]log excluded: ok\n[+]store ok\nlivez check passed\n",
        ),
    ],
)
async def test_health_is_told_as_a_whole_and_by_check(ask, path, query, expected):
    answer = await ask(path, query)

    assert (answer.status, answer.body.decode()) == (200, expected)


@pytest.mark.parametrize("path", ["/readyz/nope", "/readyz/ping/more", "/openapi", "/openapi/v4", "/nowhere"])
async def test_other_paths_lead_nowhere(ask, path):
    answer = await ask(path)

    assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_metrics_count_requests_by_what_they_asked_for(ask):
    for path in ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default", "/api/v1/nopes/x", "/nope"):
        await ask(path)

    answer = await ask("/metrics")

    assert dict(answer.headers)["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    assert "# TYPE apiserver_request_total counter" in lines
    counted = [line for line in lines if line.startswith("apiserver_request_total{")]
    expected = {
        'code="200",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1',
        'code="200",group="",resource="namespaces",scope="resource",subresource="",verb="GET",version="v1"} 1',
        'code="404",group="",resource="",scope="",subresource="",verb="GET",version=""} 2',
    }
    assert {line.partition("{")[2] for line in counted} == expected
    assert 'apiserver_storage_objects{resource="namespaces"} 4' in lines


@pytest.mark.parametrize(
    ("headers", "query", "indented"),
    [
        ({"user_agent": "curl/8.5.0"}, (), True),
        ({"user_agent": "kubectl/v1.36.3"}, (), False),
        ({"user_agent": "curl/8.5.0"}, [("pretty", "false")], False),
        ({}, [("pretty", "true")], True),
    ],
)
async def test_people_get_indented_json(ask, headers, query, indented):
    for path in ("/version", "/api/v1/namespaces/default", "/api/v1/namespaces"):
        body = (await ask(path, query, **headers)).body

        assert body.startswith(b"{\n  ") is indented
