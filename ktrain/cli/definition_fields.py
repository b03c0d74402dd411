"""
Whether the definitions that an API server has lack fields of this release, which it drops then without a word.

The operator may not read definitions, so it reads the schemas that the API server publishes, which every authenticated
user may. It compares the fields of `spec` and `status` only: that costs little memory, and definitions of other
releases differ there. `ktrain doctor` compares all fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from ktrain.api import assets
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Struct
from ktrain.framework.errors import FrameworkError

from .readiness import NEEDED_KINDS, TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from structlog.typing import FilteringBoundLogger

    from ktrain.api.meta import Json, Resource
    from ktrain.framework.client.client import Client

log: FilteringBoundLogger = structlog.get_logger("ktrain.operator")

ADVICE: Final = "install the chart with crds.install, or apply config/crd"


class _Section(Struct, frozen=True):
    properties: dict[str, msgspec.Raw] = {}


class _Kind(Struct, frozen=True):
    kind: str = ""


class _Schema(msgspec.Struct, frozen=True):
    properties: dict[str, _Section] = {}
    kinds: tuple[_Kind, ...] = msgspec.field(default=(), name="x-kubernetes-group-version-kind")


class _Components(Struct, frozen=True):
    schemas: dict[str, _Schema] = {}


class _Document(Struct, frozen=True):
    components: _Components = _Components()


async def warn_of_missing_fields(client: Client, *, with_jobset_controller: bool) -> None:
    """Log a line for each kind whose definition lacks fields. Nothing if the API server does not publish schemas."""
    kinds = [one for one in NEEDED_KINDS if with_jobset_controller or one.group != JOBSETS.group]
    shipped = {one["spec"]["names"]["kind"]: one for one in assets.crds()}
    assets.crds.cache_clear()  # megabytes that nothing else of an operator needs
    for api_version in dict.fromkeys(one.api_version for one in kinds):
        of_version = [one for one in kinds if one.api_version == api_version]
        try:
            answer = await client.raw("GET", f"/openapi/v3/apis/{api_version}", timeout_s=TIMEOUT_S)
            published = msgspec.json.decode(answer.body, type=_Document).components.schemas.values()
        except (FrameworkError, msgspec.MsgspecError) as error:
            log.debug("definition.not_published", api_version=api_version, error=str(error))
            continue
        schemas = {kind.kind: schema for schema in published for kind in schema.kinds}
        for kind, missing in _lacking(of_version, shipped, schemas):
            log.warning("definition.fields_missing", kind=kind, fields=missing, effect="dropped", advice=ADVICE)


def _lacking(
    kinds: Sequence[Resource[Any]], shipped: Mapping[str, Json], schemas: Mapping[str, _Schema]
) -> Iterator[tuple[str, list[str]]]:
    for resource in kinds:
        if (found := schemas.get(resource.kind)) is None:
            continue
        (version,) = (one for one in shipped[resource.kind]["spec"]["versions"] if one["name"] == resource.version)
        sections = version["schema"]["openAPIV3Schema"]["properties"]
        missing = [
            f"{section}.{name}"
            for section in ("spec", "status")
            for name in sections.get(section, {}).get("properties", {})
            if name not in found.properties.get(section, _Section()).properties
        ]
        if missing:
            yield resource.qualified_name, missing
