"""
The examples of `make examples`, run as their first lines say: plain Python, JAX, XGBoost, a dataset from S3, and MPI in
each kind that is installed.

Open MPI's and MPICH's wheels both bring an `mpirun`, so one environment has one of them; Debian's Open MPI 4 is beside.
"""

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import BOTH_WAYS

pytestmark = [pytest.mark.e2e, pytest.mark.examples]

OWN = str(Path(sys.prefix, "bin", "mpirun"))
DEBIANS = "/usr/bin/mpirun"
KINDS = {"(Open MPI) 4.": "openmpi4", "(Open MPI) 5.": "openmpi5", "HYDRA": "mpich"}


@pytest.mark.parametrize("pods", BOTH_WAYS)
@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_without_any_framework_share_a_search(ktrain, example, pods, nodes):
    size = (("numNodes: 2", f"numNodes: {nodes}"), ('args: ["2"]', f'args: ["{nodes}"]'))
    code, output = ktrain("run", "--pods", pods, example("plain/trainjob.yaml", *size))
    tried = re.findall(r"\[node-(\d)\] learning rate ([\d.]+): loss ([\d.]+)", output)

    assert code == 0, output
    assert sorted(rate for _, rate, _ in tried) == ["0.003", "0.01", "0.03", "0.1", "0.3", "1.0"]
    assert {node for node, _, _ in tried} == {str(node) for node in range(nodes)}
    assert min((float(loss), rate) for _, rate, loss in tried) == (0.0, "0.1")


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_two_jax_processes_fit_one_line(ktrain, example, pods):
    pytest.importorskip("jax", reason="JAX is not installed: pip install '.[examples]'")
    code, output = ktrain("run", "--pods", pods, example("jax/trainjob.yaml"))

    assert code == 0, output
    assert "[node-0] process 0 of 2, 2 devices" in output
    assert "[node-1] process 1 of 2, 2 devices" in output
    assert "[node-0] 512 points: slope 3.000, offset -1.000" in output


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_two_xgboost_workers_boost_one_forest(ktrain, example, pods):
    pytest.importorskip("xgboost", reason="XGBoost is not installed: pip install '.[examples]'")
    code, output = ktrain("run", "--pods", pods, example("xgboost/trainjob.yaml"))

    assert code == 0, output
    assert "[node-0] worker 0 of 2 has 213 rows" in output
    assert "[node-1] worker 1 of 2 has 213 rows" in output
    assert float(re.search(r"held-out accuracy: ([\d.]+)", output)[1]) >= 0.93


ENDPOINT = "http://127.0.0.1:5055"


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_a_dataset_is_fetched_from_s3_before_the_trainer_reads_it(ktrain, example, s3, pods):
    code, output = ktrain("run", "--pods", pods, example("initializer/trainjob.yaml", (ENDPOINT, s3)))
    fetched, read = output.find('"download.finished"'), output.find("[node-0] there are")

    assert code == 0, output
    assert -1 < fetched < read, output
    assert "[node-0] there are rows/0.csv, rows/1.csv, rows/2.csv, rows/3.csv\n" in output
    assert float(re.search(r"569 rows, held-out accuracy: ([\d.]+)", output)[1]) >= 0.93


@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_a_dataset_that_is_not_there_fails_the_job_at_once_with_the_reason(ktrain, example, s3, pods):
    job = example("initializer/trainjob.yaml", (ENDPOINT, s3), ("s3://datasets/cancer", "s3://nowhere/cancer"))
    code, output = ktrain("run", "--pods", pods, job)

    assert code == 1, output
    assert output.count("download.failed") >= 1
    assert "there is no s3://nowhere/cancer/: 404 NoSuchBucket" in output
    assert "[node-0]" not in output


@functools.cache
def kind_of(mpirun):
    """Which MPI a launcher starts; nothing if there is none."""
    if not Path(mpirun).exists():
        return ""
    said = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=True).stdout
    return next((kind for mark, kind in KINDS.items() if mark in said), said)


@pytest.fixture
def mpi_example(example):
    """The example of one MPI, with the launcher that it needs; skips where that is not installed."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install '.[examples]'")

    def write(kind, *, launcher_is_node):
        mpirun = next((path for path in (OWN, DEBIANS) if kind_of(path) == kind), None)
        if mpirun is None:
            pytest.skip(f"no mpirun of {kind} is installed")
        name, says_node = ("mpich", "false") if kind == "mpich" else ("openmpi", "true")
        replacements = [(f"runLauncherAsNode: {says_node}", f"runLauncherAsNode: {str(launcher_is_node).lower()}")]
        if mpirun == DEBIANS:
            # mpi4py would load the library beside it; the variable has to reach the ranks of other pods.
            replacements += [
                ("[mpirun, ", "[/usr/bin/mpirun, -x, MPI4PY_LIBMPI, "),
                ("    numNodes: 2\n", "    numNodes: 2\n    env: [{name: MPI4PY_LIBMPI, value: libmpi.so.40}]\n"),
            ]
        return example(f"mpi/{name}.yaml", *replacements)

    return write


@pytest.mark.parametrize("launcher_is_node", [True, False], ids=["launcher is node", "launcher beside"])
@pytest.mark.parametrize("pods", BOTH_WAYS)
@pytest.mark.parametrize("kind", ["openmpi4", "openmpi5", "mpich"])
def test_four_mpi_ranks_run_on_two_nodes(ktrain, mpi_example, kind, pods, launcher_is_node):
    code, output = ktrain("run", "--pods", pods, mpi_example(kind, launcher_is_node=launcher_is_node))
    ranks = re.findall(r"\[launcher-0\] rank (\d) of (\d) on (\S+)", output)

    assert code == 0, output
    assert [(rank, of) for rank, of, _ in ranks] == [(str(rank), "4") for rank in range(4)], output
    assert {"openmpi4": "Open MPI v4", "openmpi5": "Open MPI v5", "mpich": "MPICH"}[kind] in output
    if pods == "ns":  # else all pods have this machine's name
        nodes = ["mpi-launcher-0-0", "mpi-node-0-0"] if launcher_is_node else ["mpi-node-0-0", "mpi-node-0-1"]
        assert sorted(host for *_, host in ranks) == sorted(2 * nodes)
