"""GPUs of this machine: found without importing anything of theirs, divided among containers as whole devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktrain.api import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .spec import Container, Pod

GPU: Final = "nvidia.com/gpu"
_DEVICE: Final = re.compile(r"nvidia(\d+)")


def find_gpus(environ: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[str, ...]:
    """
    Name the GPUs that may be used: those of the caller's CUDA_VISIBLE_DEVICES, else all that have a device file.

    Blocks for one directory listing.
    """
    numbers = sorted(int(m[1]) for entry in devices.glob("nvidia*") if (m := _DEVICE.fullmatch(entry.name)))
    allowed = environ.get("CUDA_VISIBLE_DEVICES")
    if not numbers or allowed is None:
        return tuple(str(number) for number in numbers)
    return tuple(part.strip() for part in allowed.split(",") if part.strip() and part.strip() != "-1")


class GpuSlots:
    """
    Who has which GPU. First come, first served, all that a pod asks for or none.

    `simulated`: the node offers GPUs that do not exist. Every pod may start, and none gets a device.
    """

    def __init__(self, gpus: Sequence[str], *, simulated: bool = False) -> None:
        self.gpus = tuple(gpus)
        self._simulated = simulated
        self._taken: dict[str, set[str]] = {}

    def take(self, pod: Pod) -> Mapping[str, Sequence[str]] | None:
        """Give the pod its devices, by container; None when too few are free. A second call changes nothing."""
        if self._simulated:
            return {}
        if pod.uid in self._taken:
            self.release(pod.uid)
        used = set().union(*self._taken.values())
        free = [gpu for gpu in self.gpus if gpu not in used]
        given: dict[str, Sequence[str]] = {}
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            count = gpu_count(container)
            if not count:
                continue
            # Init containers are done before the main ones start, so both may have the same devices.
            reusable = container in pod.spec.init_containers and not container.is_sidecar
            if count > len(free):
                return None
            given[container.name] = free[:count]
            free = free if reusable else free[count:]
        if given:
            self._taken[pod.uid] = {gpu for gpus in given.values() for gpu in gpus}
        return given

    def release(self, uid: str) -> None:
        """Take back what a pod had. Idempotent."""
        self._taken.pop(uid, None)


def gpu_count(container: Container) -> int:
    """How many GPUs a container asks for; for extended resources requests equal limits."""
    resources = container.resources
    return int(quantity.parse(resources.limits.get(GPU) or resources.requests.get(GPU) or "0"))
