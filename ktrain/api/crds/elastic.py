"""The schema of `torch.elasticPolicy`: KEP-2170's fields, and those of the TorchElastic proposal (PyTorchJob)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .build import array, flag, integer, obj, rule, text, with_rules

if TYPE_CHECKING:
    from ..meta import Json

_LIMITS: Final = (("minNodes", "minReplicas"), ("maxNodes", "maxReplicas"))
_HOST: Final = r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])$"


def elastic_policy(processes: Json) -> Json:
    """Return the schema; *processes* is that of `nProcPerNode`."""
    metric: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return obj(
        {
            "backend": with_rules(
                text(high=63, description="Backend of the rendezvous: c10d, which is the default and the only one."),
                rule(
                    "self == 'c10d'",
                    "only c10d is supported: etcd and etcd-v2 are legacy, and with static no node can join or leave",
                ),
            ),
            "maxNodes": integer(1, description="Most nodes of an elastic job; default: minNodes."),
            "maxReplicas": integer(1, description="PyTorchJob's name of maxNodes."),
            "maxRestarts": integer(
                0, description="How often torchrun starts all workers anew after one failed; torchrun's 3 if absent."
            ),
            "metrics": array(
                metric,
                kind="atomic",
                high=16,
                description="Metrics of autoscaling/v2, by which an autoscaler resizes the job; none is made without.",
            ),
            "minNodes": integer(1, description="Fewest nodes with which training goes on; default: maxNodes."),
            "minReplicas": integer(1, description="PyTorchJob's name of minNodes."),
            "nProcPerNode": processes,
            "rdzvConf": _settings(),
            "rdzvHost": text(
                high=253, pattern=_HOST, description="Host where the nodes meet; default: the job's first node."
            ),
            "rdzvId": text(1, 63, description="Identity of the rendezvous; default: the TrainJob's UID."),
            "rdzvPort": integer(1, maximum=65535, description="Port where the nodes meet; default 29500."),
            "standalone": flag(
                description="Whether the job has one node, whose torchrun meets no other node (--standalone); default"
                " false."
            ),
        },
        rules=(*_limits(), *_standalone()),
        description="Train on as many nodes as there are, from minNodes to maxNodes. A limit that is absent is the"
        " other one; without both, the job stays on the nodes that trainer.numNodes says.",
    )


def _settings() -> Json:
    setting = obj(
        {
            "key": text(1, 63, pattern="^[^=, ]+$", description="Name of the setting, such as last_call_timeout."),
            "value": text(1, 253, pattern="^[^, ]+$", description="Its value."),
        },
        required=("key", "value"),
    )
    return array(
        setting, keys=("key",), high=32, description="Further settings of the rendezvous (torchrun's --rdzv-conf)."
    )


def _limits() -> list[Json]:
    same = [
        rule(f"!has(self.{name}) || !has(self.{alias})", f"{alias} is another name of {name}: only one can be set")
        for name, alias in _LIMITS
    ]
    (least, most) = (f"(has(self.{name}) ? self.{name} : self.{alias})" for name, alias in _LIMITS)
    (has_least, has_most) = (f"(has(self.{name}) || has(self.{alias}))" for name, alias in _LIMITS)
    ordered = f"!({has_least} && {has_most}) || {least} <= {most}"
    return [*same, rule(ordered, "minNodes must not be greater than maxNodes")]


def _standalone() -> list[Json]:
    unset = "!has(self.standalone) || !self.standalone || "
    meets = " || ".join(f"has(self.{name})" for name in ("rdzvHost", "rdzvId", "rdzvPort"))
    single = " && ".join(f"(!has(self.{name}) || self.{name} == 1)" for names in _LIMITS for name in names)
    return [
        rule(
            f"{unset}!({meets})",
            "rdzvHost, rdzvId and rdzvPort must not be set with standalone: torchrun would ignore them",
        ),
        rule(f"{unset}{single}", "standalone is for one node: minNodes and maxNodes must be 1 or unset"),
    ]
