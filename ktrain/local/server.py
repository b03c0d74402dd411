"""The API server that every control plane of ktrain begins with: our kinds, and the rules for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import assets
from ktrain.local.apiserver.server import ApiServer

from .admission import admission_plugins

if TYPE_CHECKING:
    from ktrain.api.meta import Json, Key
    from ktrain.framework import Env
    from ktrain.local.apiserver.durability.journal import Journal
    from ktrain.pipeline import Registry


def make_server(env: Env, registry: Registry, *, journal: Journal | None = None) -> ApiServer:
    """
    Make a server that has our CRDs and does in process what webhooks do on a cluster. Takes some milliseconds.

    `registry` holds the plugins whose validations TrainJobs must pass. With a `journal` objects outlive the server.
    """

    def find(group: str, version: str, plural: str, key: Key) -> Json | None:
        return server.find(group, version, plural, key)

    server = ApiServer(env, crds=assets.crds(), admission=admission_plugins(env, registry, find), journal=journal)
    return server
