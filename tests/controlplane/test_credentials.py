"""Kubeconfigs of every kind against a server that checks who asks."""

import msgspec
import pytest
import yaml

from ktrain.framework.client.client import Client
from ktrain.framework.client.http import connect
from ktrain.framework.errors import Unauthorized


@pytest.fixture
async def kubeconfig(control_plane, tmp_path):
    """Write the plane's kubeconfig with another user; gives its path and the token that the plane accepts."""
    known = yaml.safe_load((await control_plane.kubeconfig()).read_text())
    token = known["users"][0]["user"]["token"]

    def write(user):
        known["users"][0]["user"] = user
        (tmp_path / "config").write_text(yaml.safe_dump(known))
        return str(tmp_path / "config")

    return write, token


async def _namespaces(http, env):
    return await Client(http, env, field_manager="test").raw("GET", "/api/v1/namespaces", query=[("limit", "1")])


async def test_a_token_file_that_rotates_is_read_again_when_the_server_refuses_the_old_one(
    kubeconfig, control_plane, tmp_path
):
    write, token = kubeconfig
    file = tmp_path / "token"
    file.write_text("an old one")
    http = await connect(write({"tokenFile": "token"}))
    try:
        with pytest.raises(Unauthorized):
            await _namespaces(http, control_plane.env)
        file.write_text(token)
        assert (await _namespaces(http, control_plane.env)).status == 200
    finally:
        await http.aclose()


async def test_an_exec_plugin_whose_token_the_server_refuses_is_asked_again(kubeconfig, control_plane, tmp_path):
    write, token = kubeconfig
    plugin = tmp_path / "plugin"
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    runs = f"{tmp_path}/runs"
    plugin.write_text(
        f"#!/bin/sh\nif test -e {runs}; then t={token}; else t=old; fi\ntouch {runs}\nprintf '{answer}' $t\n"
    )
    plugin.chmod(0o755)
    exec_ = {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    http = await connect(write({"exec": exec_}))
    try:
        assert (await _namespaces(http, control_plane.env)).status == 200
    finally:
        await http.aclose()


async def test_the_server_knows_who_is_impersonated(kubeconfig, control_plane):
    write, token = kubeconfig
    extra = {"example.org/Scopes": ["x", "y"]}
    who = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b,c"], "as-user-extra": extra}
    http = await connect(write({"token": token, **who}))
    try:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        client = Client(http, control_plane.env, field_manager="test")
        answer = await client.raw("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
    finally:
        await http.aclose()

    user = msgspec.json.decode(answer.body)["status"]["userInfo"]
    assert (user["username"], user["uid"]) == ("jane", "7")
    assert set(user["groups"]) == {"a", "b,c", "system:authenticated"}
    assert user["extra"] == {"example.org/scopes": ["x", "y"]}
