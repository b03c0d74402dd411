"""
Train a small network on handwritten digits on several nodes at once, and measure it on digits it never saw.

Started by torchrun on every node; PyTorch's DistributedDataParallel needs no more than what torchrun sets. The data
comes with scikit-learn, 1,797 images of 8x8 pixels, so nothing is downloaded.
"""

import argparse
import os
import random

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HELD_OUT = 360


def load():
    """Return training images and labels, then held-out ones; the same split on every rank."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target, dtype=torch.long)
    order = list(range(len(labels)))
    random.Random(7).shuffle(order)
    held_out, training = order[:HELD_OUT], order[HELD_OUT:]
    return images[training], labels[training], images[held_out], labels[held_out]


def train(model, images, labels, *, epochs, batch_size):
    """Each rank trains on every world_size-th image of an order that all ranks share; DDP averages the gradients."""
    rank, world = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_of = nn.CrossEntropyLoss()
    order = random.Random(11)
    for epoch in range(1, epochs + 1):
        shuffled = order.sample(range(len(labels)), len(labels))
        # Equal shares: a rank with one batch more than its peers would wait for gradients for ever.
        mine = shuffled[rank : len(shuffled) - len(shuffled) % world : world]
        for start in range(0, len(mine), batch_size):
            batch = mine[start : start + batch_size]
            optimizer.zero_grad()
            loss = loss_of(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        if rank == 0 and epoch % 10 == 0:
            print(f"epoch {epoch}/{epochs}: loss {loss.item():.4f}")


def accuracy(model, images, labels):
    """Share of images whose label is predicted; every rank judges its part and the counts are summed."""
    rank, world = dist.get_rank(), dist.get_world_size()
    with torch.no_grad():
        predicted = model(images[rank::world]).argmax(dim=1)
    right = (predicted == labels[rank::world]).sum()
    dist.all_reduce(right)
    return right.item() / len(labels)


def main():
    parser = argparse.ArgumentParser(description="Train on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if dist.get_rank() == 0:
        here, nodes = int(os.environ["LOCAL_WORLD_SIZE"]), os.environ["GROUP_WORLD_SIZE"]
        where = f", {here} on each of {nodes} nodes" if here > 1 else ""
        print(f"training on {dist.get_world_size()} ranks{where}")
    images, labels, held_out_images, held_out_labels = load()
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
    model = DistributedDataParallel(network)
    train(model, images, labels, epochs=options.epochs, batch_size=options.batch_size)
    network.eval()
    result = accuracy(network, held_out_images, held_out_labels)
    if dist.get_rank() == 0:
        print(f"held-out accuracy: {result:.3f}")
    # All leave together, with nothing that still holds the group: gloo's threads abort a process that ends under them.
    dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
