"""Volumes that are claimed for one pod, by a template of the claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.builtins.values.selectors import validate_labels
from ktrain.local.apiserver.builtins.volumes.claim_specs import validate_claim_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_META: Final = frozenset({"labels", "annotations"})
"""What of a claim's metadata is anybody's to give."""
_SHOWN_AS: Final = {"uid": "uID"}
"""Upstream makes the names of these fields from those in Go."""


def validate_ephemeral_volume(source: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the template of a claim."""
    template, here = source.get("volumeClaimTemplate"), f"{field}.volumeClaimTemplate"
    if template is None:
        yield causes.required(here)
        return
    meta = template.get("metadata") or {}
    for key in meta.get("annotations", {}):
        yield from (causes.invalid(f"{here}.metadata.annotations", key, t) for t in label_key_errors(key.lower()))
    yield from validate_labels(meta.get("labels"), f"{here}.metadata.labels")
    for name in meta:
        if name not in _META:
            yield causes.forbidden(f"{here}.metadata.{_SHOWN_AS.get(name, name)}", "cannot be set")
    yield from validate_claim_spec(template.get("spec") or {}, f"{here}.spec")


def validate_claim_names(volumes: list[Json], pod: str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the names that claims made for a pod get: `POD-VOLUME`, and nobody else may use them."""
    made = {f"{pod}-{volume.get('name', '')}" for volume in volumes if "ephemeral" in volume}
    for index, volume in enumerate(volumes):
        here, name = f"{field}[{index}]", volume.get("name", "")
        if "ephemeral" in volume and name:
            for text in names.subdomain(f"{pod}-{name}"):
                yield causes.invalid(f"{here}.name", name, f"PVC name {quote(f'{pod}-{name}')}: {text}")
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            yield causes.invalid(f"{here}.persistentVolumeClaim.claimName", claim, detail)
