"""The CRD of OptimizationJob (Kubeflow Trainer KEP-2605): stored and checked. Nothing acts on it, as upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..trainer import GROUP, VERSION
from .build import CONDITION, TEMPLATE_METADATA, array, crd, described, integer, obj, rule, text, with_rules
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
        description="A search for the parameters with which a TrainJob does best; stored, and nothing acts on it.",
    )
    return crd(GROUP, VERSION, "OptimizationJob", "optimizationjobs", schema)


def _one_of(*names: str) -> Json:
    present = ",".join(f"has(self.{name})" for name in names)
    message = f"exactly one of the fields in [{' '.join(names)}] must be set"
    return rule(f"[{present}].filter(x,x==true).size() == 1", message)


def _spec() -> Json:
    objective = obj(
        {
            "direction": text(
                enum=["Maximize", "Minimize"],
                default="Minimize",
                description="Whether more of it is better (Maximize) or less (Minimize, the default).",
            ),
            "metric": text(1, 64, description="Name of the metric that trials report."),
        },
        required=("metric",),
    )
    return obj(
        {
            "numTrials": integer(1, default=1, maximum=100, description="How many trials there are; default 1."),
            "objectives": array(
                objective,
                keys=("metric",),
                high=1,
                minItems=1,
                description="What makes a trial a good one; exactly one.",
            ),
            "parallelTrials": integer(
                1, default=1, maximum=100, description="How many trials run at a time; default 1, at most numTrials."
            ),
            "parameters": array(
                _parameter(), keys=("name",), high=100, minItems=1, description="What differs from trial to trial."
            ),
            "searchAlgorithm": _algorithm(),
            "trainJobTemplate": _template(),
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
        description="What to search for, and how; fixed.",
    )


def _algorithm() -> Json:
    seed = integer(bits=64, description="Seed of the random numbers; any if absent.")
    return obj(
        {
            "grid": obj(description="Try all combinations of the choices, which all parameters must have."),
            "random": obj({"seed": seed}, description="Try values at random."),
        },
        rules=(_one_of("random", "grid"),),
        description="Which values to try; default random.",
        default={"random": {}},
    )


def _template() -> Json:
    nameless = rule("!has(self.name) && !has(self.__namespace__)", "name and namespace cannot be set in a template.")
    metadata = described(TEMPLATE_METADATA, "Metadata of the trials' TrainJobs, without name and namespace.")
    spec = described(trainjob_spec(), "Spec of the trials' TrainJobs.")
    return obj(
        {"metadata": with_rules(metadata, nameless), "spec": spec},
        required=("spec",),
        description="The TrainJob that each trial is.",
    )


def _parameter() -> Json:
    choices = array(text(high=64), kind="set", high=100, minItems=1, description="The values that there are.")
    space = obj(
        {
            "categorical": obj({"choices": choices}, required=("choices",), description="One of a list of values."),
            "logUniform": _range(
                "A number between bounds above 0, each order of magnitude alike.", _ORDERED, _POSITIVE
            ),
            "uniform": _range("A number between bounds, all alike.", _ORDERED),
        },
        rules=(_one_of("uniform", "logUniform", "categorical"),),
        description="Which values the parameter can have: exactly one of the three kinds.",
    )
    name = text(1, 64, description="Name of the parameter.")
    return obj({"name": name, "searchSpace": space}, required=("name", "searchSpace"))


def _range(description: str, *rules: Json) -> Json:
    """Bounds are texts: JSON numbers lose digits on their way through clients."""

    def bound(words: str) -> Json:
        return text(1, 64, pattern=_DECIMAL, description=words)

    return obj(
        {
            "max": bound("The largest value, as a decimal in quotes."),
            "min": bound("The smallest value, as a decimal in quotes, below max."),
            "type": text(enum=["Int", "Float"], default="Float", description="Int or Float, the default."),
        },
        required=("max", "min"),
        rules=rules,
        description=description,
    )


def _status() -> Json:
    parameter = obj(
        {
            "name": text(1, 64, description="Name of the parameter."),
            "value": text(1, 64, description="Its value in this trial."),
        },
        required=("name", "value"),
    )
    result = obj(
        {
            "parameters": array(parameter, keys=("name",), high=100, description="The parameters of the trial."),
            "trainJobName": text(1, 63, description="Name of the trial's TrainJob."),
        },
        required=("trainJobName",),
        description="The best trial so far.",
    )
    conditions = array(CONDITION, keys=("type",), high=100, description="What holds of the search.")
    return obj({"conditions": conditions, "result": result}, description="What was observed of the search.")
