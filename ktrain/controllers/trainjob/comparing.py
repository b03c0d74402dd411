"""
What of a plan is written already: after a restart only the API server can tell. It knows what it, and the webhooks
behind it, fill in, and which fields are left over from an earlier version of us that sent more.

What Kubeflow Trainer made need not be what ktrain would build, and no JobSet may become another. So it is kept, with
all that its pods mount: see `kept`. What admission has added to the policies of a JobSet is repeated: see
`stored_policies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ktrain.api import core
from ktrain.framework.client.client import APPLY_TYPE
from ktrain.framework.errors import ApiError, NotFound
from ktrain.plugins.jobset import JOB_SET_STATES

from . import kept, stored_policies
from .writing import is_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client

    from .writing import Apply

_REFUSALS: Final = (403, 422)


class Compared(NamedTuple):
    """What need not be written, with the generations of what is there (0 where a kind has none)."""

    settled: list[tuple[Apply, int]]
    kept: bytes = b""
    """If the JobSet is kept as it is: what of ours it is kept instead of."""


async def compare(client: Client, applies: Sequence[Apply], *, keeps: bool) -> Compared:
    """
    Compare components with what is there. A JobSet that cannot become what is built is kept: Kubeflow Trainer made it,
    or an earlier release of ktrain, which built it otherwise. With `keeps`, so is what stands beside it.

    Raises:
        ApiError: One could not be written.
    """
    settled: list[tuple[Apply, int]] = []
    instead_of = b""
    for apply in applies:
        is_job_set = apply.component.resource == JOB_SET_STATES
        live = await client.get(core.untyped(apply.component.resource), apply.key.name, apply.key.namespace)
        built = stored_policies.repeated(apply.component.body, live) if is_job_set else apply.component.body
        try:
            written = live if keeps and not is_job_set else await _tried(client, apply, built)
        except ApiError as error:
            if not (is_job_set and _is_immutable(error)):
                raise
            instead_of = kept.fixed(built)
            written = await _tried(client, apply, kept.adjusted(live, built, apply.patches))
        if is_same(live, written):
            settled.append((apply, live["metadata"].get("generation", 0)))
    return Compared(settled, instead_of)


async def to_write(client: Client, apply: Apply, instead_of: bytes) -> Json:
    """Return what to write of a component: of a JobSet that exists, with what has to stay of it as it is stored."""
    resource, built = apply.component.resource, apply.component.body
    if not apply.exists or resource != JOB_SET_STATES:
        return built
    is_kept = bool(instead_of) and instead_of == kept.fixed(built)
    if not (is_kept or stored_policies.may_differ(built)):
        return built
    try:
        live = await client.get(core.untyped(resource), apply.key.name, apply.key.namespace)
    except NotFound:
        return built  # it names the UID of the JobSet that is gone, so the API server answers with a conflict
    return kept.adjusted(live, built, apply.patches) if is_kept else stored_policies.repeated(built, live)


async def _tried(client: Client, apply: Apply, body: Json) -> Json:
    query = [("fieldManager", client.field_manager), ("force", "true"), ("dryRun", "All")]
    path = core.untyped(apply.component.resource).path(*apply.key)
    answer = await client.raw("PATCH", path, query=query, body=body, headers={"Content-Type": APPLY_TYPE})
    found: Json = msgspec.json.decode(answer.body)
    return found


def _is_immutable(error: ApiError) -> bool:
    text = error.status.message or str(error)
    return error.code in _REFUSALS and "replicatedJobs" in text and "field is immutable" in text
