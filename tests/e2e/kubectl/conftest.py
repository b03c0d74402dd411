"""
The same commands against two servers: `ktrain up`, and a real kube-apiserver when KUBEBUILDER_ASSETS names one.

What a test expects of both is thereby proven to be what kubectl does on a cluster. Tests that need running pods ask for
`up` instead of `kubectl`, because the real control plane has no kubelet.
"""

import itertools
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from ...programs import KUBECTL, NO_KUBECTL, WEBSOCKETS
from ...waiting import eventually

PATIENCE_S = 60
_numbers = itertools.count(1)


class Kubectl:
    """kubectl as one user of one server, in a namespace of the test's own."""

    def __init__(self, program, kubeconfig, home, *, namespace="", is_real):
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.is_real = is_real
        self._program = program
        self._home = home
        # Its own home: neither the caches nor the preferences of whoever runs the tests.
        self._env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "KUBECTL_EXTERNAL_DIFF": "diff -u -N",
            **WEBSOCKETS,
        }

    def inside(self, namespace):
        return Kubectl(self._program, self.kubeconfig, self._home, namespace=namespace, is_real=self.is_real)

    def arguments(self, *arguments):
        scope = ["--namespace", self.namespace] if self.namespace else []
        return [self._program, "--kubeconfig", str(self.kubeconfig), *scope, *map(str, arguments)]

    def run(self, *arguments, stdin=None, **env):
        """Run it; returns the finished process."""
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        return subprocess.run(
            self.arguments(*arguments),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env={**self._env, **env},
        )

    def __call__(self, *arguments, stdin=None, **env):
        """Run it; returns what it printed. It must succeed."""
        done = self.run(*arguments, stdin=stdin, **env)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}{done.stdout}"
        return done.stdout

    def fails(self, *arguments, stdin=None, code=1):
        """Run it; returns what it complained of. It must fail."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == code, f"kubectl {arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stderr

    def object(self, *arguments):
        """Return an object or list as it is now."""
        return json.loads(self("get", *arguments, "-o", "json"))

    def apply(self, *objects):
        """Create or change objects, as JSON: what follows is the test's subject, not this."""
        return self("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": list(objects)})

    def start(self, *arguments, **options):
        """Start it and do not wait."""
        return subprocess.Popen(
            self.arguments(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._env,
            **options,
        )


@pytest.fixture(scope="session")
def program():
    if KUBECTL is None:
        pytest.skip(NO_KUBECTL)
    return KUBECTL


@pytest.fixture(scope="session")
def up_server(program, shared_up, tmp_path_factory):
    """`ktrain up` with pods as plain processes, for the whole session."""
    return Kubectl(program, shared_up("--pods", "host"), tmp_path_factory.mktemp("up"), is_real=False)


@pytest.fixture(scope="session")
def real(program, real_server, tmp_path_factory):
    if real_server is None:
        pytest.skip("no real kube-apiserver: KUBEBUILDER_ASSETS is not set")
    return Kubectl(program, real_server.kubeconfig, tmp_path_factory.mktemp("real"), is_real=True)


@pytest.fixture(params=["up", "real"])
def server(request):
    """Kubectl in no particular namespace, on either server."""
    return request.getfixturevalue("up_server" if request.param == "up" else "real")


def _in_new_namespace(server):
    name = f"test-{os.getpid()}-{next(_numbers)}"
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield server.inside(name)
    server("delete", "namespace", name, "--wait=false")


@pytest.fixture
def kubectl(server):
    """Kubectl in an empty namespace, on either server."""
    yield from _in_new_namespace(server)


@pytest.fixture
def up(up_server):
    """Kubectl in an empty namespace of `ktrain up`, where pods run."""
    yield from _in_new_namespace(up_server)


@pytest.fixture
def file(tmp_path):
    """Write objects into a YAML file; returns its path."""

    def write(*objects, name="objects.yaml"):
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(objects))
        return path

    return write


@pytest.fixture
def editor(tmp_path):
    """An editor for KUBE_EDITOR that runs a sed script on the file; with an empty one it changes nothing."""

    def make(script):
        path = Path(tmp_path) / "editor"
        path.write_text(f"#!/bin/sh\nexec sed -i -e '{script}' \"$1\"\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


THING_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.kubectl.test"},
    "spec": {
        "group": "kubectl.test",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Image", "type": "string", "jsonPath": ".spec.image", "priority": 1},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "Something to try kubectl on.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "description": "What is wanted.",
                                "properties": {
                                    "replicas": {"type": "integer", "default": 1, "description": "How many."},
                                    "image": {"type": "string", "description": "Of what."},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def things(kubectl):
    """Serve the kind Thing; returns a maker of Things for a manifest."""
    kubectl.apply(THING_CRD)
    kubectl("wait", "--for=condition=Established", "crd/things.kubectl.test", "--timeout=30s")
    # A real server says Established a moment before it serves the kind.
    eventually(lambda: kubectl.run("get", "things").returncode == 0)

    def thing(name, **spec):
        return {"apiVersion": "kubectl.test/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}

    return thing


@pytest.fixture
def config_map():
    """A ConfigMap for a manifest."""

    def make(name, data=None, **labels):
        metadata = {"name": name, "labels": labels} if labels else {"name": name}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"k": "v"}}

    return make


@pytest.fixture
def pod():
    """A Pod for a manifest, of one container that runs a shell script."""

    def make(name, script="sleep 600", containers=None, **labels):
        main = [{"name": "main", "image": "none", "command": ["sh", "-c", script]}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name, **labels}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": containers or main},
        }

    return make


@pytest.fixture
def job():
    """A Job for a manifest; suspended unless told otherwise, so that it has no pods."""

    def make(name, script="true", **spec):
        container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"suspend": True, "template": template, **spec},
        }

    return make
