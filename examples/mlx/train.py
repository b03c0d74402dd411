"""
Fit a small network to a curve on all ranks of an MPI job, with MLX: `mpirun ... python train.py RANKS`.

Each rank has points of its own and starts with the same weights; gradients are averaged over MPI. The number of ranks
is an argument, and is checked.
"""

import os
import sys
from pathlib import Path

# MLX loads `libmpi.so`; the wheel of Open MPI has its library under the versioned name only.
WHEEL = Path(sys.prefix, "lib", "libmpi.so.40")
if WHEEL.exists():
    os.environ.setdefault("MLX_MPI_LIBNAME", str(WHEEL))

import mlx.core as mx  # noqa: E402 -- after the variable that it reads
from mlx import nn, optimizers  # noqa: E402

STEPS = 200
POINTS = 256


def error(model, points, values):
    return nn.losses.mse_loss(model(points), values)


def main():
    expected = int(sys.argv[1])
    world = mx.distributed.init(strict=True, backend="mpi")
    print(f"rank {world.rank()} of {world.size()} on {os.uname().nodename}", flush=True)
    if world.size() != expected:
        raise SystemExit(f"expected {expected} ranks, found {world.size()}: did mpirun read its host file?")
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optimizers.Adam(learning_rate=1e-2)
    gradient = nn.value_and_grad(model, error)
    mx.random.seed(1 + world.rank())
    points = mx.random.uniform(-2, 2, (POINTS, 1))
    values = mx.sin(2 * points)
    for step in range(STEPS):
        loss, own = gradient(model, points, values)
        optimizer.update(model, nn.average_gradients(own))
        mx.eval(model.parameters(), optimizer.state)
        if step % 50 == 0 or step == STEPS - 1:
            mean = mx.distributed.all_sum(loss).item() / world.size()
            if world.rank() == 0:
                print(f"step {step}: loss {mean:.4f}", flush=True)
    weight = sum(mx.sum(mx.abs(value)).item() for layer in model.layers for value in layer.parameters().values())
    print(f"rank {world.rank()} has weights of {weight:.4f}", flush=True)


if __name__ == "__main__":
    main()
