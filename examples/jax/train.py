"""
Fit a line on several nodes at once with JAX: each process holds a part of the points, and XLA sums the gradients.

What JAX needs to find its peers comes from the runtime as JAX_* variables. They are passed on by name, because
`jax.distributed.initialize` reads only the coordinator's address by itself.
"""

import os

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SLOPE, OFFSET = 3.0, -1.0
POINTS_PER_PROCESS = 256
STEPS = 200


def points(process, mesh):
    """Return this process's points as its part of one array over all processes."""
    x = jax.random.uniform(jax.random.key(process), (POINTS_PER_PROCESS,), minval=-1.0, maxval=1.0)
    y = SLOPE * x + OFFSET
    by_process = NamedSharding(mesh, PartitionSpec("all"))
    return tuple(jax.make_array_from_process_local_data(by_process, part) for part in (x, y))


@jax.jit
def step(weights, x, y):
    """One step of gradient descent on the mean over all points of all processes."""

    def loss(weights):
        return jnp.mean((weights[0] * x + weights[1] - y) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.5 * gradient, value


def main():
    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    process, processes = jax.process_index(), jax.process_count()
    print(f"process {process} of {processes}, {jax.device_count()} devices", flush=True)
    mesh = Mesh(jax.devices(), ("all",))
    x, y = points(process, mesh)
    weights = jnp.zeros(2)
    for _ in range(STEPS):
        weights, loss = step(weights, x, y)
    slope, offset = (float(weight) for weight in weights)
    if process == 0:
        print(f"{x.size} points: slope {slope:.3f}, offset {offset:.3f}, loss {float(loss):.6f}", flush=True)
    if abs(slope - SLOPE) > 0.05 or abs(offset - OFFSET) > 0.05:
        raise SystemExit(f"the fit is off: slope {slope}, offset {offset}")
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
