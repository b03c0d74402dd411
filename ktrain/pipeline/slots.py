"""
The open slots of a runtime, `mlPolicy.plugin` and `podGroupPolicy.plugin`: the name of a plugin, and its configuration.

A plugin says in `schemas` which slots it takes, and by which schema (OpenAPI v3, structural, as in a CRD). A runtime
that names a plugin which nobody installed would otherwise run as if it said nothing: without its framework's peers, or
without its gang. So such a job is refused, and so is a configuration that does not fit, with the runtime already. A
runtime that comes before the plugin that it names is stored, with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api.trainer import PluginPolicy

from .errors import PlanError, RegistryError
from .findings import Findings, forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause, Schema
    from ktrain.api.trainer import RuntimeSpec

    from .points import Plugin

SLOTS: Final = ("mlPolicy", "podGroupPolicy")
_FIELD: Final = "spec.runtimeRef"


def schemas_of(plugin: Plugin) -> dict[str, Schema]:
    """
    Compile what *plugin* says about the slots that it takes.

    Raises:
        RegistryError: It takes a slot that there is not, or a schema is not structural.
    """
    declared = getattr(plugin, "schemas", None)
    if not declared:
        return {}
    from ktrain.api.schema import Schema, structural_causes  # only those who bring a schema pay for it

    if not isinstance(declared, dict) or not set(declared) <= set(SLOTS):
        raise RegistryError(f"`schemas` must be a dict from slots ({', '.join(SLOTS)}) to schemas")
    compiled = {}
    for slot, schema in declared.items():
        if not isinstance(schema, dict):
            raise RegistryError(f"schemas[{slot!r}] must be a schema: a dict")
        if causes := structural_causes(schema, f"schemas[{slot!r}]"):
            raise RegistryError("; ".join(map(str, causes)))
        # Around it what is around it in the runtime, so that messages name the field as people have written it.
        around = schema
        for step in ("config", "plugin", slot, "spec"):
            around = {"type": "object", "properties": {step: around}}
        compiled[slot] = Schema.from_crd(around)
    return compiled


class Slots:
    """Which plugins take which slots; *failures* says of those that would why they do not work."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Schema]], failures: Mapping[str, str]) -> None:
        self._schemas = schemas
        self._failures = failures

    def check(self, runtime: RuntimeSpec) -> Findings:
        """Say what is wrong with the slots of *runtime*, on the TrainJob that refers to it."""
        errors = [
            forbidden(_FIELD, f"the runtime's {text}")
            for slot, policy in _slots(runtime)
            for text in (self._untaken(slot, policy) or map(str, self._misfits(slot, policy)))
        ]
        return Findings(tuple(errors))

    def check_runtime(self, spec: Json, old: Json | None) -> Findings:
        """
        Say what is wrong with the slots of a runtime's *spec* itself, which replaces *old* (None: it is new).

        What stays as it was is left alone: a plugin that changed its mind must not keep a runtime from its deletion.
        """
        findings = Findings()
        for slot in SLOTS:
            said = _said(spec, slot)
            if not said or said == _said(old or {}, slot):
                continue
            policy = msgspec.json.decode(msgspec.json.encode(said), type=PluginPolicy)
            if untaken := self._untaken(slot, policy):
                findings += Findings(warnings=tuple(f"{text}; TrainJobs are refused meanwhile" for text in untaken))
            else:
                findings += Findings(tuple(self._misfits(slot, policy)))
        return findings

    def require(self, runtime: RuntimeSpec) -> None:
        """
        Make sure that somebody takes the slots of *runtime*; an operator may have lost a plugin since it was checked.

        Raises:
            PlanError: Nobody does.
        """
        for slot, policy in _slots(runtime):
            for text in self._untaken(slot, policy):
                raise PlanError(f"the runtime's {text}")

    def _untaken(self, slot: str, policy: PluginPolicy) -> list[str]:
        if slot in self._schemas.get(policy.name, ()):
            return []
        names = f'spec.{slot}.plugin names "{policy.name}"'
        if reason := self._failures.get(policy.name):
            return [f"{names}, which is installed and cannot be used: {reason}"]
        takers = ", ".join(sorted(name for name, slots in self._schemas.items() if slot in slots))
        return [f"{names}, and no such plugin is installed; there are: {takers or 'none'}"]

    def _misfits(self, slot: str, policy: PluginPolicy) -> list[Cause]:
        from ktrain.api.schema import Cause  # whoever has no such slot does not pay for it

        schema = self._schemas[policy.name][slot]
        config = msgspec.json.decode(policy.config) if policy.config else {}
        pruned, unknown = schema.prune({"spec": {slot: {"plugin": {"config": config}}}})
        refused = schema.validate(schema.default(pruned))
        return [*refused, *(Cause(path, "FieldValueInvalid", "unknown field") for path in unknown)]


def _slots(runtime: RuntimeSpec) -> Iterator[tuple[str, PluginPolicy]]:
    for slot, policy in zip(SLOTS, (runtime.ml_policy, runtime.pod_group_policy), strict=True):
        if policy and policy.plugin:
            yield slot, policy.plugin


def _said(spec: Json, slot: str) -> Json | None:
    said: Json | None = (spec.get(slot) or {}).get("plugin")
    return said
