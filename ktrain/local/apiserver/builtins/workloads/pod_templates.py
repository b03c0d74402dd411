"""PodTemplates: a pod's template as an object of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver.builtins.pods.warnings import warn_of_template
from ktrain.local.apiserver.builtins.workloads.templates import default_template, validate_template
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


class PodTemplateStrategy(Strategy):
    """PodTemplates."""

    answers_deleted_object = True

    def default(self, obj: Json) -> None:
        """Fill in the template."""
        default_template(obj)

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the template."""
        return list(validate_template(obj.get("template") or {}, "template"))

    def warn(self, obj: Json) -> Sequence[str]:
        """Warn of the template."""
        return warn_of_template(obj.get("template") or {}, "template")
