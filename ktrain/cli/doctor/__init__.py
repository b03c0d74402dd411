"""
`ktrain doctor`: whether a cluster is fit for ktrain, before the installation and after it.

- `command` the command line, and the printed table
- `finding` what a check found
- `cluster` how checks read a cluster; `installation` which operators run in it, and how ours is configured
- one module for each subject: `platform`, `definitions`, `jobsets`, `operators`, `webhooks`, `rights`, `gangs`,
  `leftovers`; each has a `check` that yields findings
- `examination` runs all checks side by side
"""

from .command import command as command
