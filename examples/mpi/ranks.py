"""
Sum a series on all ranks of an MPI job, and say which rank ran where.

The number of ranks is an argument, and is checked: an MPI that did not read its host file would start all of them on
one node, or one only, and end well all the same.
"""

import sys

from mpi4py import MPI

TERMS = 100_000


def part_of_pi(rank, size):
    """Leibniz's series, every size-th term of it."""
    return sum((-1) ** k * 4.0 / (2 * k + 1) for k in range(rank, TERMS, size))


def main():
    expected = int(sys.argv[1])
    world = MPI.COMM_WORLD
    total = world.allreduce(part_of_pi(world.rank, world.size))
    hosts = world.gather(MPI.Get_processor_name())
    if world.rank == 0:
        print(MPI.Get_library_version().split(",")[0].splitlines()[0].strip("\0"))
        for rank, name in enumerate(hosts):
            print(f"rank {rank} of {world.size} on {name}")
        print(f"pi is about {total:.4f}", flush=True)
    if world.size != expected:
        if world.rank == 0:
            print(f"expected {expected} ranks, found {world.size}: did mpirun read its host file?", flush=True)
        world.Abort(3)


if __name__ == "__main__":
    main()
