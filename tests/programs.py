"""Programs that some tests need and a machine may not have."""

import shutil

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
