"""
Train on handwritten digits while nodes come and go.

torchrun starts all workers anew whenever the number of nodes changes, so a worker begins where the last checkpoint
ends. Rank 0 writes one after each epoch, where all nodes can read it. The data comes with scikit-learn.
"""

import argparse
import os
import random
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Checkpoint:
    """Model, optimizer and the number of epochs done, in a file that is always whole."""

    def __init__(self, path, model, optimizer):
        self.path, self.model, self.optimizer = path, model, optimizer

    def load(self):
        """Continue from the file, if there is one; returns the number of epochs done."""
        if not self.path.exists():
            return 0
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state["epochs"]

    def save(self, epochs):
        """Write the file anew: whoever is killed meanwhile leaves the old one."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epochs": epochs}
        unfinished = self.path.with_name(f"{self.path.name}.new")
        torch.save(state, unfinished)
        unfinished.replace(self.path)


def train_epoch(model, optimizer, images, labels, *, epoch, batch_size):
    """Each rank trains on every world_size-th image of the epoch's order; returns the mean loss of all ranks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    order = random.Random(epoch).sample(range(len(labels)), len(labels))
    # Equal shares: a rank with one batch more than its peers would wait for gradients for ever.
    mine = order[rank : len(order) - len(order) % world : world]
    total, batches = torch.zeros(()), 0
    for start in range(0, len(mine), batch_size // world):
        batch = mine[start : start + batch_size // world]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        total += loss.detach()
        batches += 1
    dist.all_reduce(total)
    return total.item() / (batches * world)


def main():
    parser = argparse.ArgumentParser(description="Train on handwritten digits, elastically.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="a file that all nodes share")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=120, help="of all ranks together")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each epoch, to look like work")
    options = parser.parse_args()

    # A node may leave before all have met. Who waits for it has to fail for torchrun to start the others anew.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target, dtype=torch.long)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    checkpoint = Checkpoint(options.checkpoint, network, optimizer)
    done = checkpoint.load()
    dist.barrier()  # nobody writes the file while others still read it
    model = DistributedDataParallel(network)
    is_first, ranks = dist.get_rank() == 0, dist.get_world_size()
    if is_first:
        print(f"{ranks} ranks go on after epoch {done}, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
    for epoch in range(done + 1, options.epochs + 1):
        loss = train_epoch(model, optimizer, images, labels, epoch=epoch, batch_size=options.batch_size)
        if is_first:
            print(f"epoch {epoch} of {options.epochs} on {ranks} ranks: loss {loss:.4f}", flush=True)
            checkpoint.save(epoch)
        time.sleep(options.pause)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
