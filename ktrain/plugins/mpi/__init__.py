"""
MPI: a launcher that starts ranks on the nodes through ssh.

- `plugin` the hooks: sizes, volumes, variables, validation
- `policy` `mlPolicy.mpi`, and what follows from it: nodes, slots
- `implementations` what each MPI reads: host file lines and variables
- `objects` the host file's ConfigMap and the key pair's Secret; `keys` the key pair
"""

from .plugin import MPI as MPI
