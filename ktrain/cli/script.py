"""The TrainJob that `ktrain run train.py --nodes 2` stands for. Pure: `--print` shows exactly what would run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from ktrain.api.trainer import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json

TORCH_RUNTIME = "torch-distributed"
NAME_LIMIT = 40
"""Child names add `-<replicated job>-<index>-<index>-<suffix>` and must stay within 63 characters."""


@dataclass(frozen=True, slots=True)
class Script:
    """What the user asked for on the command line."""

    path: str
    arguments: Sequence[str] = ()
    runtime: str = TORCH_RUNTIME
    nodes: int = 1
    processes_per_node: int | None = None
    env: Sequence[tuple[str, str]] = ()


def job_name(path: str) -> str:
    """A TrainJob name (RFC 1035 label) from a file name: `My_train.py` → `my-train`."""
    name = re.sub(r"[^a-z0-9]+", "-", PurePath(path).stem.lower()).strip("-")
    name = name[:NAME_LIMIT].rstrip("-")
    return name if name[:1].isalpha() else f"job-{name}".rstrip("-")


def train_job(script: Script) -> Json:
    """Build the TrainJob. torch runtimes start the script through torchrun, all others through python."""
    launcher = "torchrun" if script.runtime.startswith("torch") else "python"
    trainer: Json = {"numNodes": script.nodes}
    if script.processes_per_node is not None:
        trainer["numProcPerNode"] = script.processes_per_node
    trainer["command"] = [launcher, script.path]
    if script.arguments:
        trainer["args"] = list(script.arguments)
    if script.env:
        trainer["env"] = [{"name": name, "value": value} for name, value in script.env]
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": job_name(script.path)},
        "spec": {"runtimeRef": {"name": script.runtime}, "trainer": trainer},
    }
