"""The program it is all for: torchrun, unmodified, on two pods that know each other by name."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.e2e]

PROGRAM = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
model(torch.ones(1, 1) * dist.get_rank()).sum().backward()
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(total)}", flush=True)
dist.barrier()
dist.destroy_process_group()
"""


async def test_ddp_over_gloo_meets_at_the_name_of_rank_0_while_another_pod_has_the_same_port(pod) -> None:
    pytest.importorskip("torch", reason="needs the [torch] extra")
    script = pod.executor.directory / "train.py"
    script.write_text(PROGRAM)

    async def node(rank: int) -> tuple[int, str]:
        mine = await pod(f"tj-node-0-{rank}", namespace="team-a", attempt="team-a")
        env = mine.spec("torchrun").env | {
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "1",
            "PET_NODE_RANK": str(rank),
            "PET_MASTER_ADDR": "tj-node-0-0.tj",
            "PET_MASTER_PORT": "29500",
        }
        return await mine.run("torchrun", str(script), env=env)

    neighbour = await pod("other", namespace="team-b", attempt="team-b")
    listen = """
import os, socket
server = socket.create_server(("", int(os.environ["MASTER_PORT"])))
print("up", flush=True)
server.accept()
"""
    env = neighbour.spec("python").env | {"MASTER_PORT": "29500"}
    await neighbour.start("python", "-ISc", listen, env=env)
    await neighbour.until_logged("up")
    async with asyncio.timeout(300):
        ends = await asyncio.gather(node(0), node(1))

    for rank, (code, log) in enumerate(ends):
        assert (code, log.splitlines()[:1]) == (0, [f"rank {rank} of 2: sum 3"]), log
