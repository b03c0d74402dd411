"""ReplicationControllers: the ReplicaSet's ancestor, which selects by a plain map of labels that may be left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.workloads.deployments import ReplicaSetStrategy
from ktrain.local.apiserver.builtins.workloads.templates import validate_selected_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


class ReplicationControllerStrategy(ReplicaSetStrategy):
    """ReplicationControllers. `kubectl apply --prune` and `cluster-info dump` want the kind to be there."""

    kind = "ReplicationController"

    def default(self, obj: Json) -> None:
        """Fill in the spec; selector and labels are those of the template."""
        has_template = "template" in (obj.get("spec") or {})
        super().default(obj)
        spec = obj["spec"]
        if not has_template:
            del spec["template"]
            return
        labels = spec["template"]["metadata"].get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check counts, selector and template."""
        spec = obj["spec"]
        found = [cause for name in self.counts for cause in causes.non_negative(f"spec.{name}", spec.get(name))]
        missing = [causes.required(f"spec.{name}") for name in ("selector", "template") if not spec.get(name)]
        if missing:
            return [*found, *missing]
        selecting = {**spec, "selector": {"matchLabels": spec["selector"]}}
        return [*found, *validate_selected_template(selecting, "spec", self.kind)]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Even the selector may change."""
        return ()
