"""Kubeflow's SDK on `ktrain up`: functions that really train, with PyTorch, JAX and MPI."""

import importlib.util
import re
import shutil

import pytest

from .conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def needs(library, extra):
    missing = importlib.util.find_spec(library) is None
    return pytest.mark.skipif(missing, reason=f"{library} is not installed: pip install '.[{extra}]'")


RUN = """
def logs(name):
    job = client.wait_for_job_status(name, status={"Complete", "Failed"}, timeout=90, polling_interval=1)
    assert job.status == "Complete", [list(client.get_job_logs(name, step=step.name)) for step in job.steps]
    for step in sorted(job.steps, key=lambda step: step.name):
        for line in client.get_job_logs(name, step=step.name):
            print(step.name, line)
"""


@pytest.mark.torch
@needs("torch", "torch")
def test_a_function_of_pytorch_finds_its_peers_on_two_nodes_with_two_processes_each(sdk):
    program = """
def train():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor(dist.get_rank())
    dist.all_reduce(total)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}", flush=True)
    dist.destroy_process_group()

job = client.train(trainer=CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": 2}))
logs(job)
print([step.device_count for step in client.get_job(job).steps])
"""
    *lines, counts = sdk(RUN + program)[0].splitlines()

    assert sorted(lines) == [f"node-{rank // 2} rank {rank} of 4: 6" for rank in range(4)]
    assert counts == "['2', '2']"


@pytest.mark.examples
@needs("jax", "examples")
def test_a_function_of_jax_finds_its_peers(sdk):
    program = """
def train():
    import os
    import jax

    where = os.environ["JAX_COORDINATOR_ADDRESS"]
    jax.distributed.initialize(where, int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"]))
    print(f"process {jax.process_index()} of {jax.process_count()}, {jax.device_count()} devices", flush=True)

trainer = CustomTrainer(func=train, num_nodes=2, env={"JAX_PLATFORMS": "cpu"})
logs(client.train(runtime="jax-distributed", trainer=trainer))
"""
    lines = sdk(RUN + program)[0].splitlines()

    assert lines == [f"node-{number} process {number} of 2, 2 devices" for number in range(2)]


@pytest.mark.examples
@pytest.mark.ns  # the SDK writes the program to /home/mpiuser, which pods have only in file systems of their own
@needs("mpi4py", "examples")
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun is installed")
def test_a_function_of_mpi_runs_on_all_ranks_and_the_launcher_has_their_logs(sdk_on):
    program = f"""
import yaml

def train():
    from mpi4py import MPI

    print("rank", MPI.COMM_WORLD.rank, "of", MPI.COMM_WORLD.size, MPI.Get_processor_name(), flush=True)

runtime = next(yaml.safe_load_all(open({str(ROOT / "examples/mpi/openmpi.yaml")!r})))
runtime["metadata"]["labels"] = {{"trainer.kubeflow.org/framework": "mpi"}}
kind = ("trainer.kubeflow.org", "v1alpha1", "default", "trainingruntimes")
client.backend.custom_api.create_namespaced_custom_object(*kind, runtime)
logs(client.train(runtime="openmpi", trainer=CustomTrainer(func=train, num_nodes=2), options=[Name("mpi")]))
"""
    out, _err = sdk_on("--pods", "ns")(RUN + program)

    found = sorted(re.findall(r"node-0 rank (\d) of 4 (\S+)", out))
    assert [rank for rank, _ in found] == ["0", "1", "2", "3"]
    assert {host for _, host in found} == {"mpi-launcher-0-0", "mpi-node-0-0"}


@pytest.mark.examples
def test_a_function_reads_what_an_initializer_has_fetched_for_it(sdk_on, s3):
    program = f"""
import yaml

def train():
    import pathlib

    files = sorted(file.name for file in pathlib.Path("/workspace/dataset/rows").glob("*"))
    print(", ".join(files), flush=True)

runtime = list(yaml.safe_load_all(open({str(ROOT / "examples/initializer/trainjob.yaml")!r})))[-1]
runtime["metadata"]["labels"] = {{"trainer.kubeflow.org/framework": "plain"}}
kind = ("trainer.kubeflow.org", "v1alpha1", "default", "trainingruntimes")
client.backend.custom_api.create_namespaced_custom_object(*kind, runtime)
dataset = S3DatasetInitializer(
    "s3://datasets/cancer", ["*.md"], endpoint={s3!r}, access_key_id="example", secret_access_key="example"
)
name = client.train(
    runtime="fetching", initializer=Initializer(dataset=dataset), trainer=CustomTrainer(func=train)
)
logs(name)
"""
    *fetched, trained = sdk_on("--pods", "host")(RUN + program)[0].splitlines()

    assert any("download.finished" in line for line in fetched)
    assert trained == "node-0 0.csv, 1.csv, 2.csv, 3.csv"
