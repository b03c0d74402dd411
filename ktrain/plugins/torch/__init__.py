"""
Torch: tells `torchrun` who its peers are, and `tune run` which recipe to run.

- `plugin` the hooks
- `elastic` jobs whose number of nodes may change; `scaling` what happens to them while they run
- `variables` the `PET_*` variables that torchrun reads as defaults of its options
- `torchtune` the command of `tune run`, and what it cannot do
"""

from .plugin import Torch as Torch
from .scaling import ElasticTorch as ElasticTorch
