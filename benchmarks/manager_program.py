"""
A manager with an election, five informers and a controller: `python -m benchmarks.manager_program KUBECONFIG [TIMES]`.

TIMES are the three of the election, in seconds, or the word `bare` for a process that only renews a lease. Prints lines
that begin with the machine's monotonic clock: `ready` when it waits to lead, `leading` at its first reconcile, `call`
for every call of the API server. Ends in order on SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import anyio
from prometheus_client import CollectorRegistry

from ktrain.api.core import CONFIG_MAPS, LEASES, PODS
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.framework import Cache, Client, Controller, LeaderElection, Manager, Metrics, connect, system_env
from ktrain.framework.election.election import Timing
from ktrain.framework.telemetry.logging import configure

from .objects import NAMESPACE
from .telling import Telling

if TYPE_CHECKING:
    from ktrain.framework.client.transport import Transport

LABEL: Final = "benchmark=yes"
LEASE: Final = "benchmark"
RETRY_S: Final = 2.0


def tell(event: str) -> None:
    """One line, at once."""
    print(f"{time.monotonic()} {event}", flush=True)


def tell_call(method: str, path: str) -> None:
    """Of a call to the API server."""
    tell(f"call {method} {path}")


async def manage(kubeconfig: str, timing: Timing) -> None:
    """Run until SIGTERM."""
    async with (
        aclosing(Telling(await connect(kubeconfig), tell_call)) as transport,
        aclosing(Telling(await connect(kubeconfig), tell_call)) as for_election,
    ):
        manager = make_manager(transport, for_election, timing)
        async with anyio.create_task_group() as group:
            with anyio.open_signal_receiver(signal.SIGTERM) as signals:
                await group.start(manager.run)
                tell("ready")
                async for _ in signals:
                    break
                group.cancel_scope.cancel()


def make_manager(transport: Transport, for_election: Transport, timing: Timing) -> Manager:
    """Wire one as an operator does."""
    env = system_env()
    metrics = Metrics(CollectorRegistry())
    identity = f"candidate-{env.random.getrandbits(32):08x}"
    election = LeaderElection(
        Client(for_election, env, field_manager="benchmarks"),
        env,
        name=LEASE,
        namespace=NAMESPACE,
        identity=identity,
        timing=timing,
        metrics=metrics,
    )
    client = Client(transport, env, field_manager="benchmarks", guard=election.guard, metrics=metrics)
    cache = Cache(client, env)
    leading = False

    async def reconcile(_key: Key) -> None:
        nonlocal leading
        if not leading:
            leading = True
            tell("leading")

    controller = Controller("standing", reconcile, env=env, cache=cache, metrics=metrics)
    controller.watches(cache.informer(CONFIG_MAPS, label_selector=LABEL))
    cache.informer(TRAIN_JOBS)
    cache.informer(TRAINING_RUNTIMES)
    cache.informer(JOBSETS)
    cache.informer(PODS)
    return Manager(cache=cache, controllers=[controller], leader_election=election)


async def only_renew(kubeconfig: str) -> None:
    """Renew a lease, as an election must; until killed."""
    transport = await connect(kubeconfig)
    client = Client(transport, system_env(), field_manager="benchmarks")
    key = Key(NAMESPACE, "bare")
    meta = {"namespace": NAMESPACE, "name": "bare"}
    await client.apply(LEASES, {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta})
    tell("leading")
    number = 0
    while True:
        number += 1
        await client.patch(LEASES, key, {"spec": {"leaseTransitions": number}})
        await anyio.sleep(RETRY_S)


def main() -> None:
    """Run one of the two."""
    kubeconfig, *rest = sys.argv[1:]
    configure(level="error")
    if rest == ["bare"]:
        anyio.run(only_renew, kubeconfig)
    else:
        lease_s, renew_s, retry_s = map(float, rest) if rest else (15.0, 10.0, RETRY_S)
        anyio.run(manage, kubeconfig, Timing(lease_s, renew_s, retry_s))


if __name__ == "__main__":
    main()
