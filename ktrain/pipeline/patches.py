"""
Lays a TrainJob's `runtimePatches` over the runtime's JobSet spec, by Kubernetes' strategic merge.

Patches come first: whatever the TrainJob's other fields and the plugins set later wins. They apply in list order, each
to the result of the one before. A patch adds and replaces; it has no way to delete: what is empty in it says nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ktrain.api.typed import as_typed

from .errors import PlanError
from .journal import Author, Patched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Schema

    from .journal import Journal

_JOB_SET_SPEC: Final[Json] = {
    "type": "object",
    "properties": {
        "replicatedJobs": {
            "type": "array",
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name",
            "items": {"type": "object", "properties": {"template": {"$ref": "batch.v1.JobTemplateSpec"}}},
        }
    },
}
"""How a JobSet spec merges, as far as a patch can reach. CRDs carry no merge keys; these are of JobSet's Go types."""


def apply_patches(spec: Json, patches: Sequence[tuple[str, Json]], journal: Journal) -> Json:
    """
    Return *spec* with the JobSet-spec *patches* (author and patch) merged in; *spec* is left as it is.

    Strategic merge moves patched list elements to the front. Replicated jobs go back to the runtime's order, because
    `dependsOn` may only name earlier ones; names that the runtime does not have sort like the first.

    Raises:
        PlanError: One cannot be merged: an item of a list lacks the name that it is found by.
    """
    if not patches:
        return spec
    position = {job.get("name"): index for index, job in enumerate(spec.get("replicatedJobs") or ())}
    for author, said in patches:
        patch = as_typed(said)
        journal.patches.append(Patched(Author(author), patch))
        spec = _merge(spec, patch, author)
    if "replicatedJobs" in spec:
        spec = spec | {
            "replicatedJobs": sorted(spec["replicatedJobs"], key=lambda job: position.get(job.get("name"), 0))
        }
    return spec


def _merge(spec: Json, patch: Json, author: str) -> Json:
    # With the schemas 20 ms, for jobs with patches only.
    from ktrain.api.strategic import StrategicMergeError, strategic_merge

    try:
        return strategic_merge(spec, patch, _schema())
    except StrategicMergeError as error:
        raise PlanError(f"{author} does not fit the runtime: {error}") from error


@lru_cache(maxsize=1)
def _schema() -> Schema:
    from ktrain.api.schema import Schema

    return Schema.from_crd(_JOB_SET_SPEC)
