"""
One replica of a small operator, as a process: `python candidate.py KUBECONFIG NAMESPACE NAME [SECONDS]`.

It keeps writing config maps while it leads, many at a time, so that some are always on their way; each is named after
it. With SECONDS, a pass over the config map `slow` takes that long and then writes `slow-done`.
"""

import sys

import anyio

from ktrain.api.core import CONFIG_MAPS
from ktrain.framework.election.election import Timing
from ktrain.framework.errors import FrameworkError
from ktrain.framework.operator.operator import Operator
from ktrain.framework.operator.settings import Settings

# On a busy machine a write may be under way for a while: the lease outlasts the right to send one by that.
TIMING = Timing(lease_duration_s=6, renew_deadline_s=3, retry_period_s=0.5)
WRITERS = 8


def config_map(namespace, name, **more):
    meta = {"name": name, "namespace": namespace, **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


class Writers:
    """Write without a pause. Run by the leader only."""

    def __init__(self, op, namespace, name):
        self._op = op
        self._namespace = namespace
        self._name = name

    async def run(self, *, task_status):
        async with anyio.create_task_group() as tasks:
            for number in range(WRITERS):
                tasks.start_soon(self._write, number)
            task_status.started()

    async def _write(self, number):
        count = 0
        while True:
            count += 1
            body = config_map(self._namespace, f"{self._name}-{number}-{count}", labels={"by": self._name})
            try:
                await self._op.client.create(CONFIG_MAPS, body)
            except FrameworkError:
                await anyio.sleep(0.01)
            await anyio.sleep(0.02)


async def main(kubeconfig, namespace, name, seconds=""):
    settings = Settings(
        kubeconfig=kubeconfig,
        leader_election="candidates",
        namespace=namespace,
        identity=name,
        timing=TIMING,
        log_format="json",
    )
    async with Operator(f"candidate-{name}", settings) as op:
        if seconds:

            async def reconcile(key):
                print("begun", flush=True)  # noqa: T201 - the test waits for it
                await anyio.sleep(float(seconds))
                await op.client.create(CONFIG_MAPS, config_map(namespace, "slow-done"))

            slow = op.cache.informer(CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=slow")
            op.controller("slow", reconcile).for_(slow)
        else:
            op.add(Writers(op, namespace, name))
        await op.run()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
