"""The CRD of OptimizationJob (Kubeflow Trainer KEP-2605): stored and checked. Nothing acts on it, as upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..trainer import GROUP, VERSION
from .build import CONDITION, TEMPLATE_METADATA, array, crd, integer, obj, rule, text, with_rules
from .trainjob import trainjob_spec

if TYPE_CHECKING:
    from ..meta import Json

_DECIMAL: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_ORDERED: Final = rule("double(self.min) < double(self.max)", "min must be strictly less than max")
_POSITIVE: Final = rule("double(self.min) > 0.0", "min must be strictly greater than 0")


def optimizationjob_crd() -> Json:
    """The CRD."""
    schema = obj(
        {"spec": _spec(), "status": _status()},
        required=("spec",),
        description="A search for the parameters with which a TrainJob does best.",
    )
    return crd(GROUP, VERSION, "OptimizationJob", "optimizationjobs", schema)


def _one_of(*names: str) -> Json:
    present = ",".join(f"has(self.{name})" for name in names)
    message = f"exactly one of the fields in [{' '.join(names)}] must be set"
    return rule(f"[{present}].filter(x,x==true).size() == 1", message)


def _spec() -> Json:
    objective = obj(
        {"direction": text(enum=["Maximize", "Minimize"], default="Minimize"), "metric": text(1, 64)},
        required=("metric",),
    )
    algorithm = obj({"grid": obj(), "random": obj({"seed": integer(bits=64)})}, rules=(_one_of("random", "grid"),)) | {
        "default": {"random": {}}
    }
    template = obj(
        {
            "metadata": with_rules(
                TEMPLATE_METADATA,
                rule("!has(self.name) && !has(self.__namespace__)", "name and namespace cannot be set in a template."),
            ),
            "spec": trainjob_spec(),
        },
        required=("spec",),
    )
    return obj(
        {
            "numTrials": integer(1, default=1, maximum=100),
            "objectives": array(objective, keys=("metric",), high=1, minItems=1),
            "parallelTrials": integer(1, default=1, maximum=100),
            "parameters": array(_parameter(), keys=("name",), high=100, minItems=1),
            "searchAlgorithm": algorithm,
            "trainJobTemplate": template,
        },
        required=("objectives", "parameters", "trainJobTemplate"),
        rules=(
            rule("self.parallelTrials <= self.numTrials", "parallelTrials cannot exceed numTrials"),
            rule(
                "!has(self.searchAlgorithm.grid) || self.parameters.all(p, has(p.searchSpace.categorical))",
                "Grid search requires all parameters to be Categorical; Uniform and LogUniform are not supported.",
            ),
            rule("self == oldSelf", "OptimizationJobSpec is immutable and cannot be updated after creation"),
        ),
    )


def _parameter() -> Json:
    choices = array(text(high=64), kind="set", high=100, minItems=1)
    space = obj(
        {
            "categorical": obj({"choices": choices}, required=("choices",)),
            "logUniform": _range(_ORDERED, _POSITIVE),
            "uniform": _range(_ORDERED),
        },
        rules=(_one_of("uniform", "logUniform", "categorical"),),
    )
    return obj({"name": text(1, 64), "searchSpace": space}, required=("name", "searchSpace"))


def _range(*rules: Json) -> Json:
    """Bounds are texts: JSON numbers lose digits on their way through clients."""
    bound = text(1, 64, pattern=_DECIMAL)
    kind = text(enum=["Int", "Float"], default="Float")
    return obj({"max": bound, "min": bound, "type": kind}, required=("max", "min"), rules=rules)


def _status() -> Json:
    value = text(1, 64)
    parameter = obj({"name": value, "value": value}, required=("name", "value"))
    result = obj(
        {"parameters": array(parameter, keys=("name",), high=100), "trainJobName": text(1, 63)},
        required=("trainJobName",),
    )
    return obj({"conditions": array(CONDITION, keys=("type",), high=100), "result": result})
