"""
What an installation of ktrain puts into a cluster besides its CRDs: the shipped runtimes, and its public ConfigMap.

Kubeflow's SDK reads the version from that ConfigMap, and warns on every start where it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain import __version__
from ktrain.api import assets
from ktrain.api.core import CONFIG_MAPS, NAMESPACES
from ktrain.api.documents import load, resource_of

if TYPE_CHECKING:
    from ktrain.framework.client.client import Client

NAMESPACE: Final = "kubeflow-system"
PUBLIC: Final = "kubeflow-trainer-public"


async def install(client: Client) -> None:
    """
    Create the objects, or bring them up to date.

    Raises:
        ApiError: The server refused one of them.
    """
    for document in load(assets.runtime_files()):
        await client.apply(resource_of(document.object), document.object)
    await client.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    public = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PUBLIC, "namespace": NAMESPACE},
        "data": {"kubeflow_trainer_version": __version__},
    }
    await client.apply(CONFIG_MAPS, public)
