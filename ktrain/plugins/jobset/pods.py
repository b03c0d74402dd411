"""Pod specs as the rules look at them: a replicated job's, and what a patch of one may not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

_OWN_CONTAINERS: Final = (api.ANCESTOR_DATASET_INITIALIZER, api.ANCESTOR_MODEL_INITIALIZER, api.TRAINER_CONTAINER)


def pod_spec(replicated_job: Json) -> Json:
    """Return the pod spec of a replicated job; empty if there is none."""
    found = replicated_job
    for key in ("template", "spec", "template", "spec"):
        found = found.get(key) or {}
    return found


def names(items: list[Json] | None) -> set[str]:
    """Return the names of the items of a list."""
    return {str(item.get("name", "")) for item in items or ()}


def pod_patch_errors(pod: Json, name: str, runtime_pod: Json) -> Iterator[str]:
    """Yield what a patch of the pods of the runtime's job `name` may not say."""
    known = names(runtime_pod.get("containers")) | names(runtime_pod.get("initContainers"))
    if names(pod.get("initContainers")) - known:
        yield f"must not have initContainer that doesn't exist in the runtime job {name}"
    for container in pod.get("containers") or ():
        if container.get("name") not in known:
            yield f"must not have container that doesn't exist in the runtime job {name}"
        elif container.get("env") and container.get("name") in _OWN_CONTAINERS:
            yield "must not have envs for the dataset-initializer, model-initializer, node containers"
