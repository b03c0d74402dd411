"""How many processes a container's resources are good for. Exact: quantities are fractions, counts round up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ktrain.api import quantity

if TYPE_CHECKING:
    from ktrain.api.meta import Json


def gpu_count(resources: Json) -> int:
    """
    Count GPUs: the first resource with `gpu` in its name, in any case; requests before limits.

    `nvidia.com/gpu` and `amd.com/gpu` count; `google.com/tpu` and MIG slices do not, as in Go's Trainer.
    """
    for kind in ("requests", "limits"):
        for name, value in (resources.get(kind) or {}).items():
            if "gpu" in name.lower() and (count := math.ceil(quantity.parse(str(value)))):
                return count
    return 0


def cpu_count(resources: Json) -> int:
    """Count whole cores, rounded up; requests before limits; 0 without either."""
    for kind in ("requests", "limits"):
        value = (resources.get(kind) or {}).get("cpu")
        if value is not None and (count := math.ceil(quantity.parse(str(value)))):
            return count
    return 0


def names_device(resources: Json) -> bool:
    """Whether any extended resource is asked for: those have a domain in their name, as `nvidia.com/gpu`."""
    return any("/" in name for kind in ("requests", "limits") for name in resources.get(kind) or ())
