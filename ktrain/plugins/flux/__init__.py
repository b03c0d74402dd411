"""
Flux: an HPC scheduler of its own inside of one TrainJob, whose brokers find each other by the pods' host names.

- `plugin` the hooks: the wrapped program, volumes, the installer, validation
- `job` `mlPolicy.flux`, and what follows from it: tasks, hosts, settings, the user's words
- `scripts` the two programs that run in the pods, and the broker's configuration; `init.sh`, `entrypoint.sh` their text
- `curve` the certificate by which brokers know each other
"""

from .plugin import Flux as Flux
