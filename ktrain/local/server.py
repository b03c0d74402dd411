"""The API server that every control plane of ktrain begins with: our kinds, and the rules for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import assets
from ktrain.controllers.jobset import ELASTIC_TRAIN_JOBS
from ktrain.local.apiserver.server import ApiServer

from .admission import admission_plugins
from .jobset_admission import jobset_plugins
from .store_reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ktrain.api.meta import Json, Key, Resource
    from ktrain.controllers.jobset import Gates
    from ktrain.framework import Env
    from ktrain.local.apiserver.access.gate import Authorization
    from ktrain.local.apiserver.durability.journal import Journal
    from ktrain.pipeline import Registry


def make_server(
    env: Env,
    registry: Registry,
    gates: Gates | None = None,
    *,
    authorization: Authorization = "RBAC",
    signing_key: bytes | None = None,
    journal: Journal | None = None,
) -> ApiServer:
    """
    Make a server that has our CRDs and does in process what webhooks do on a cluster. Takes some milliseconds.

    `registry` holds the plugins whose validations TrainJobs must pass; `gates` say what JobSets may ask for, by default
    that elastic TrainJobs may resize theirs.
    With a `journal` objects outlive the server.
    """

    def find(group: str, version: str, plural: str, key: Key) -> Json | None:
        return server.find(group, version, plural, key)

    def objects(resource: Resource[Any], namespace: str) -> Iterator[Json]:
        return (item.obj for _, item in server.store.collection(resource.qualified_name).entries(namespace))

    rules = [
        *admission_plugins(env, registry, StoreReader(find, objects)),
        *jobset_plugins(gates or ELASTIC_TRAIN_JOBS, find, objects),
    ]
    server = ApiServer(
        env,
        crds=[*assets.crds(), *assets.pod_group_crds()],
        admission=rules,
        authorization=authorization,
        signing_key=signing_key,
        journal=journal,
    )
    return server
