"""`ktrain operator`, kube-scheduler and their like as processes of a test, and users with our manifests' rights."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

import yaml

from ktrain.api.documents import resource_of
from ktrain.testing.planes import install_crds

RBAC = {"apiGroup": "rbac.authorization.k8s.io"}


@asynccontextmanager
async def program(*arguments, log, stdout=None, **environment):
    """Run Python with these arguments; it is killed if it has not ended by itself."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *map(str, arguments), stdout=stdout, stderr=errors, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def operating(plane, kubeconfig, *options, log, **environment):
    """Run `ktrain operator` in the namespace of a test, without ports of its own unless they are named later."""
    quiet = ("--metrics-bind-address", "0", "--health-probe-bind-address", "0")
    arguments = ("-m", "ktrain", "operator", "--kubeconfig", kubeconfig, *quiet, *options)
    return program(*arguments, log=log, POD_NAMESPACE=plane.namespace, **environment)


async def end(process):
    """Ask a process to end, which it does in order."""
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 0


def install(server):
    """Have a real server know our kinds before its controllers run."""
    asyncio.run(install_crds(server))


@contextmanager
def kube_scheduler(binary, server, *options, log):
    """Run the real scheduler beside a real server, for no longer than the test."""
    arguments = [f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--secure-port=0", *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [binary, *arguments],
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 -- only a prctl call
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def roles_of(manifest):
    """The roles of a manifest."""
    return list(yaml.safe_load_all(manifest.read_text()))


async def grant(client, user, roles, namespace):
    """Let a user do what the roles say, those of a namespace in this one."""
    for role in roles:
        name = role["metadata"]["name"]
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": f"{role['kind']}Binding",
            "metadata": {"name": name},
            "roleRef": {**RBAC, "kind": role["kind"], "name": name},
            "subjects": [{**RBAC, "kind": "User", "name": user}],
        }
        for document in (role, binding):
            if role["kind"] == "Role":
                document["metadata"]["namespace"] = namespace
            await client.apply(resource_of(document), document)
