"""values.schema.json of the chart: the hand-written part, and manager.config, made from the typed settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from ktrain.cli.config import RECONCILED_KINDS, Configuration

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue

HAND_WRITTEN: Final = Path(__file__).parent / "values.schema.yaml"
KUBEFLOW_KINDS: Final = ("trainJob", "trainingRuntime", "clusterTrainingRuntime", "jobSet")
"""Keys of groupKindConcurrency in the values of Kubeflow Trainer's chart, which the templates translate."""
_LEFT_OUT: Final = ("default", "title", "description")


def render() -> str:
    """Return the content of values.schema.json."""
    schema: Json = yaml.safe_load(HAND_WRITTEN.read_text())
    (settings,), sections = msgspec.json.schema_components([Configuration], ref_template="#/$defs/config.{name}")
    schema["$defs"] |= {f"config.{name}": _bare(section) for name, section in sections.items()}
    schema["$defs"]["config.ControllerSection"]["properties"]["groupKindConcurrency"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {kind: {"type": "integer", "minimum": 1} for kind in (*KUBEFLOW_KINDS, *RECONCILED_KINDS)},
    }
    schema["properties"]["manager"]["properties"]["config"] = settings
    return json.dumps(schema, indent=2) + "\n"


def _bare(schema: JsonValue, *, names: bool = False) -> JsonValue:
    """Leave out what validates nothing. `names`: the keys of this mapping are names of fields, and all stay."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if names or key not in _LEFT_OUT
    }
