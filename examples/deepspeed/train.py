"""
Fit a small network to a curve on all ranks of an MPI job, with DeepSpeed: `mpirun ... python train.py RANKS`.

ZeRO stage 2 divides gradients and the optimizer's state among the ranks. The number of ranks is an argument, and is
checked.
"""

import os
import sys

import deepspeed
import torch
from torch import distributed, nn

STEPS = 200
POINTS = 256
CONFIG = {
    "train_micro_batch_size_per_gpu": POINTS,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
}


def main():
    expected = int(sys.argv[1])
    # Started by mpirun, DeepSpeed asks MPI for the ranks and for the address of the first one.
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo", verbose=False)
    if "OMPI_COMM_WORLD_LOCAL_RANK" in os.environ:
        # DeepSpeed counts the ranks on hosts of one name, and nodes that share a machine have one name.
        os.environ["LOCAL_RANK"] = os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]
    rank, size = distributed.get_rank(), distributed.get_world_size()
    print(f"rank {rank} of {size} on {os.uname().nodename}", flush=True)
    if size != expected:
        raise SystemExit(f"expected {expected} ranks, found {size}: did mpirun read its host file?")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    torch.manual_seed(1 + rank)
    points = (4 * torch.rand(POINTS, 1) - 2).to(engine.device)
    values = torch.sin(2 * points)
    for step in range(STEPS):
        loss = nn.functional.mse_loss(engine(points), values)
        engine.backward(loss)
        engine.step()
        if step % 50 == 0 or step == STEPS - 1:
            mean = loss.detach().clone()
            distributed.all_reduce(mean)
            if rank == 0:
                print(f"step {step}: loss {mean.item() / size:.4f}", flush=True)
    weight = sum(value.detach().abs().sum().item() for value in model.parameters())
    print(f"rank {rank} has weights of {weight:.4f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
