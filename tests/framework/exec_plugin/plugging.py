"""What plugins print, and a kubeconfig that names one."""

import json

import msgspec

from ktrain.framework.client import exec_plugin

V1, BETA = exec_plugin.VERSIONS


def credential(version=V1, **status):
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def numbered(tmp_path, **status):
    """A token that counts the runs."""
    text = credential(token="t%s", **status)
    return f"printf '{text}' $(wc -l < {tmp_path}/runs)"


def kubeconfig(tmp_path, plugin, cluster=None, url="https://api.example:6443"):
    path = tmp_path / "config"
    user = {"command": plugin, "apiVersion": V1, **({} if cluster is None else {"provideClusterInfo": True})}
    path.write_bytes(
        msgspec.json.encode(
            {
                "current-context": "one",
                "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
                "users": [{"name": "u", "user": {"exec": user}}],
                "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return str(path)
