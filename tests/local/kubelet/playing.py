"""Programs of a pod as a script plays them, and what its status says of them."""

import asyncio

from ktrain.local.sandbox.sim import Act

FOREVER = Act()
GOOD = Act(runs_s=1)


def by_command(acts):
    """A script that goes by the program's first word."""
    return lambda _sandbox, process: acts[process.argv[0]]


def in_turn(*acts):
    """A script whose programs do one thing after the other, the last one for ever."""
    left = list(acts)
    return lambda _sandbox, _process: left.pop(0) if len(left) > 1 else left[0]


def container(name, command=None, **fields):
    return {"name": name, "image": "i", "command": [command or name], **fields}


def main_status(pod):
    return pod.status.container_statuses[0]


def now():
    return asyncio.get_running_loop().time()
