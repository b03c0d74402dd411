"""What HTTP itself, and patches, are answered with: paths, methods, media types, query parameters, odd documents."""

import json
from pathlib import Path

import pytest
import yaml

TABLES = Path(__file__).parent / "tables"
REQUESTS = [row for name in ("requests", "mistakes") for row in yaml.safe_load((TABLES / f"{name}.yaml").read_text())]
PATCHES = yaml.safe_load((TABLES / "patches.yaml").read_text())
JSON = "application/json"


@pytest.fixture
def send(control_plane):
    """`await send("GET", "/api/…")` sends a request as it is, and returns the status and the decoded answer."""

    async def request(method, path, body=None, **headers):
        path, _, query = path.replace("{ns}", control_plane.namespace).partition("?")
        pairs = [tuple(pair.split("=", 1)) for pair in query.split("&") if pair]
        shown = {"Accept": JSON, "Content-Type": JSON} | {name.replace("_", "-"): v for name, v in headers.items()}
        data = None if body is None else body.replace("{ns}", control_plane.namespace).encode()
        answer = await control_plane.transport.request(method, path, query=pairs, headers=shown, body=data)
        try:
            return answer.status, json.loads(answer.body or b"{}")
        except ValueError:
            return answer.status, {}

    return request


@pytest.fixture
async def target(send, config_map):
    """A ConfigMap `x` with data, to be patched."""
    return await send("POST", "/api/v1/namespaces/{ns}/configmaps", json.dumps(config_map("x", {"a": "b", "c": "d"})))


@pytest.mark.parametrize("row", REQUESTS, ids=lambda row: row["name"])
async def test_a_request_is_answered_as_by_a_real_server(send, control_plane, row):
    method, path = row["request"].split(" ", 1)
    status, body = await send(method, path, row.get("body"), **row.get("headers", {}))

    assert (status, body.get("reason")) == (row["status"], row.get("reason"))
    assert row.get("message", "").replace("{ns}", control_plane.namespace) in body.get("message", "")


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize("row", PATCHES, ids=lambda row: f"{row['type']}: {row['patch']}")
async def test_a_patch_ends_as_on_a_real_server(send, row):
    media = f"application/{row['type']}-patch+{'yaml' if row['type'] == 'apply' else 'json'}"
    path = "/api/v1/namespaces/{ns}/configmaps/x?" + row.get("query", "")
    status, body = await send("PATCH", path, row["patch"], Content_Type=media)

    assert (status, body.get("reason")) == (row["status"], row.get("reason"))
    assert row.get("message", "") in body.get("message", "")
    if "field" in row:
        assert {cause["field"] for cause in body["details"]["causes"]} == {row["field"]}
    if "data" in row:
        assert body["data"] == row["data"]
