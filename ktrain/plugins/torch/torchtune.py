"""
TorchTune: `tune run` wants a recipe and a configuration by name, which follow from the model and the machines.

Active when the TrainJob's command is exactly `tune run`. The model is the runtime's, by its name:
`torchtune-llama3.2-1b` fine-tunes `llama3_2/1B`. The command is rewritten; what the user overrides (`epochs=2`) stays
in the arguments. Of the runtime's own command only those overrides survive that belong to the runtime: where it keeps
the model, the tokenizer and the output. `tune run` takes torchrun's options, so the `PET_*` variables reach it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.findings import FieldError, invalid
from ktrain.pipeline.info import Program
from ktrain.pipeline.resources import node_gpus

from .variables import AUTO, is_standalone, node_count, processes_per_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.pipeline.info import Info

COMMAND: Final = ("tune", "run")

_MULTI_NODE_MODELS: Final = frozenset(("llama3_3/70B",))
_QLORA_ON_ONE_DEVICE: Final = frozenset(("llama3_2/1B", "llama3_2/3B"))
_NO_QLORA: Final = frozenset(("qwen2_5/1.5B",))
_MODELS: Final = _MULTI_NODE_MODELS | _QLORA_ON_ONE_DEVICE | _NO_QLORA
_RUNTIMES_OWN: Final = frozenset(
    ("output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file")
)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What decides on recipe and configuration."""

    model: str
    """As TorchTune names it: family and size. Empty if the runtime's name says none."""
    nodes: int
    processes: int | str
    gpus: int
    """Of one node."""
    lora: bool
    qlora: bool

    @property
    def on_one_device(self) -> bool:
        """Whether one process does it all."""
        return self.nodes == 1 and (self.processes == 1 or self.gpus == 1)

    @property
    def kind(self) -> str:
        """What is trained: everything, or adapters, which TorchTune does on one node only."""
        if self.nodes != 1:
            return "full"
        return "qlora" if self.qlora else "lora" if self.lora else "full"

    @property
    def recipe(self) -> str:
        """The program that `tune run` starts."""
        what = "full" if self.kind == "full" else "lora"
        return f"{what}_finetune_{'single_device' if self.on_one_device else 'distributed'}"

    @property
    def config(self) -> str:
        """The configuration of that recipe for this model."""
        kind = self.kind
        if self.nodes > 1:
            return f"{self.model}_full_multinode"
        return f"{self.model}_{kind}_single_device" if self.on_one_device else f"{self.model}_{kind}"

    @property
    def meets(self) -> bool:
        """Whether there are several processes, which have to find each other."""
        return self.nodes > 1 or (self.gpus > 1 if self.processes == AUTO else self.processes != 1)


def is_torchtune(trainer: api.Trainer | None) -> bool:
    """Whether the TrainJob starts `tune run`."""
    return trainer is not None and trainer.command == COMMAND


def program(info: Info, trainer: api.Trainer) -> Program:
    """Return the whole command, and the user's arguments."""
    tuning = _tuning(info, trainer, node_count(info), processes_per_node(info))
    meets = tuning.meets and not is_standalone(info)
    meeting = (f"--rdzv_endpoint={info.coordinator_host}:{api.TRAINER_PORT}",) if meets else ()
    command = (*COMMAND, *meeting, tuning.recipe, "--config", tuning.config, *_overrides(info))
    return Program(command, trainer.args)


def check(info: Info, trainer: api.Trainer) -> Iterator[FieldError]:
    """Yield what TorchTune, or its pairing with this runtime, cannot do."""
    name = info.job.spec.runtime_ref.name
    nodes = 1 if trainer.num_nodes is None else max(1, trainer.num_nodes)
    said = trainer.processes_per_node or AUTO
    processes = said if trainer.num_proc_per_node is None else trainer.num_proc_per_node
    tuning = _tuning(info, trainer, nodes, processes)
    model = tuning.model
    if model not in _MODELS:
        detail = f"must have a supported pretrained model, invalid model configured: {model}"
        yield invalid("spec.runtimeRef.name", name, detail)
    if nodes > 1 and model not in _MULTI_NODE_MODELS:
        yield invalid("spec.trainer.numNodes", nodes, f"must be 1 for {model} model")
    if tuning.kind == "qlora":
        yield from _check_qlora(tuning, name, trainer)
    if nodes > 1 and (tuning.lora or tuning.qlora):
        detail = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
        yield invalid("spec.trainer.numNodes", nodes, detail)
    for index, argument in enumerate(trainer.args or ()):
        if (key := _key(argument)) in _RUNTIMES_OWN:
            detail = f'must not set immutable config "{key}" in trainer args; it is managed by the runtime'
            yield invalid(f"spec.trainer.args[{index}]", argument, detail)


def _check_qlora(tuning: Tuning, name: str, trainer: api.Trainer) -> Iterator[FieldError]:
    model = tuning.model
    if model in _NO_QLORA:
        yield invalid("spec.runtimeRef.name", name, f"QLoRA is not supported for {model} model")
    if model in _QLORA_ON_ONE_DEVICE and not tuning.on_one_device:
        detail = f"must be auto or 1 for {model} model when using QLoRA"
        yield invalid("spec.trainer.numProcPerNode", tuning.processes, detail)
        detail = f"must have gpu resource with value 1 for {model} model when using QLoRA"
        asked = trainer.resources_per_node
        yield invalid("spec.trainer.resourcesPerNode", msgspec.json.decode(asked) if asked else None, detail)


def _tuning(info: Info, trainer: api.Trainer, nodes: int, processes: int | str) -> Tuning:
    args = trainer.args or ()
    return Tuning(
        _model(info.job.spec.runtime_ref.name),
        nodes,
        processes,
        node_gpus(info),
        lora=any("model.lora_attn_modules" in argument for argument in args),
        # DoRA changes LoRA's layers in a way that does not go with quantized weights.
        qlora=_is_on(args, "model.quantize_base") and not _is_on(args, "model.use_dora"),
    )


def _model(runtime: str) -> str:
    parts = runtime.split("-")
    if len(parts) != 3:
        return ""
    _, family, size = parts
    return f"{family.replace('.', '_')}/{size.upper()}"


def _is_on(args: Iterable[str], key: str) -> bool:
    pairs = (argument.partition("=") for argument in args)
    return any(key in name and value.strip().lower() == "true" for name, _, value in pairs)


def _overrides(info: Info) -> Iterator[str]:
    """Yield what the runtime's command says of the runtime's own."""
    for pod_set in info.pod_sets:
        if pod_set.ancestor == api.ANCESTOR_TRAINER and (container := pod_set.step_container):
            yield from (word for word in container.spec.get("command") or () if _key(word) in _RUNTIMES_OWN)


def _key(argument: str) -> str:
    return argument.partition("=")[0]
