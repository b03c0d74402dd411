"""Programs that some tests need and a machine may not have, or has in an older version."""

import functools
import json
import shutil
import subprocess

import pytest

from ktrain.testing.envtest import Settings


def _kubectl():
    binaries = Settings.of().binaries
    found = binaries.kubectl if binaries else None
    return str(found) if found else shutil.which("kubectl")


KUBECTL = _kubectl()
"""That of KUBEBUILDER_ASSETS, else that of the PATH; None if there is none."""
NO_KUBECTL = "there is no kubectl: set KUBEBUILDER_ASSETS to what hack/controlplane/build prints, or install it"
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason=NO_KUBECTL)
WEBSOCKETS = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"}
"""
For the environment of kubectl, which speaks WebSockets by default since 1.30, to forward ports since 1.31.

With these it does so one minor earlier. Older ones speak SPDY only, which is not served here.
"""


@functools.cache
def kubectl_minor():
    """Return the minor version of kubectl: 32 of 1.32."""
    done = subprocess.run(
        [KUBECTL, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True, timeout=30
    )
    # Providers write `32+`.
    return int(json.loads(done.stdout)["clientVersion"]["minor"].rstrip("+"))


def needs_kubectl_of(minor, what):
    """Skip the running test if kubectl is older than 1.*minor*, which brought what the test is about."""
    if kubectl_minor() < minor:
        pytest.skip(f"this kubectl is of 1.{kubectl_minor()}, and {what} came with 1.{minor}")
