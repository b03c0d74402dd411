"""What `ktrain up` and `ktrain run` refuse before anything starts, and in which words."""

import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ktrain.cli import run, up


def refusal(command, *arguments):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2, result.output
    return result.output.strip().splitlines()[-1]


def told_on_start(*arguments):
    """What a server says that cannot start; in a process of its own, since by then it has the log as it wants it."""
    done = subprocess.run(
        [sys.executable, "-m", "ktrain", "up", "--pods", "off", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    return done.stderr.strip().splitlines()[-1]


UP = [
    (["--node-labels", "7:a=b"], "--node-labels: there is no node 7, only one node, 0; --nodes says how many"),
    (["--nodes", "4", "--node-labels", "2-7:a=b"], "there is no node 4, only nodes 0 to 3; --nodes says how many"),
    (["--node-labels", "3-1:a=b"], "3-1: the last node comes before the first"),
    (["--node-labels", "0:"], "'' is not NAME=VALUE"),
    (["--node-labels", "a=b,a=c"], "a is given twice"),
    (["--node-labels", ""], "'' is not NAME=VALUE"),
    (["--node-labels", "x:a=b"], "x:a=b: name part must consist of"),
    (["--nodes", "0"], "0 is not in the range x>=1"),
    (["--nodes", "-3"], "-3 is not in the range x>=1"),
    (["--nodes", "two"], "'two' is not a valid integer"),
    (["--node-resources", "cpu=1,cpu=2"], "cpu is given twice"),
    (["--node-resources", "cpu=-1"], "cpu: -1 is less than nothing"),
    (["--node-resources", "cpu=eight"], "cpu: "),
    (["--node-resources", "gpu=8"], "gpu: is none of cpu, memory, ephemeral-storage, pods; others have a domain"),
    (["--node-resources", "nvidia.com/g u=8"], "nvidia.com/g u: name part must consist of"),
    (["--node-resources", "nvidia.com/gpu=1.5"], "nvidia.com/gpu: 1.5 is not a whole number"),
    (["--node-resources", "memory=1e30"], "memory: 1e30 is more than can be counted"),
    (["--node-resources", "cpu=8,"], "'' is not NAME=VALUE"),
    (["--pods", "off", "--nodes", "2"], "with --pods off there are no nodes"),
    (["--pods", "none"], "'none' is not one of 'auto', 'ns', 'host', 'off'"),
    (["--listen", "8080"], "'8080' is not HOST:PORT"),
    (["--listen", "0.0.0.0:80"], "'0.0.0.0' is not a loopback address"),
    (["--listen", "127.0.0.1:70000"], "'127.0.0.1:70000' is not HOST:PORT"),
    (["--state", ""], "it is empty"),
    (["--kubeconfig", ""], "it is empty"),
    (["--feature-gates", "Nonsense"], "no feature gate 'Nonsense'; there are"),
    (["--feature-gates", "RestartJob=maybe"], "feature gate RestartJob: 'maybe' is neither true nor false"),
    (["--feature-gates", "RestartJob,RestartJob=false"], "feature gate RestartJob is given twice"),
]


@pytest.mark.parametrize(
    ("arguments", "told"), UP, ids=lambda given: " ".join(given) if isinstance(given, list) else ""
)
def test_up_refuses_what_it_could_not_mean(arguments, told):
    assert told in refusal(up.command, *arguments)


RUN = [
    (["--node-labels", "1:a=b"], "--node-labels: there is no node 1, only one node, 0"),
    (["--nodes", "-1"], "-1 is not in the range x>=1"),
    (["--timeout", "0"], "'0' is not a duration"),
    (["--timeout", "-5s"], "'-5s' is not a duration"),
    (["--context", ""], "it is empty"),
    (["--context", "c", "--pods", "host"], "--pods is for runs on this machine"),
    (["--context", "c", "--nodes", "2"], "--nodes, --node-resources and --node-labels are for runs on this machine"),
    (["--context", "c", "--feature-gates", "TrainJobStatus"], "--feature-gates is for runs on this machine"),
    (["--namespace", "A"], "'A' is no namespace"),
    (["--kubeconfig", "/nowhere/at/all"], "File '/nowhere/at/all' does not exist."),
    (["--print"], "--print shows the TrainJob that stands for a script; job.yaml is one already"),
    (["--env", "A=1"], "--env: only for a script; for YAML, write it into the TrainJob"),
]


@pytest.mark.parametrize(
    ("arguments", "told"), RUN, ids=lambda given: " ".join(given) if isinstance(given, list) else ""
)
def test_run_refuses_what_it_could_not_mean(arguments, told):
    assert told in refusal(run.command, "job.yaml", *arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--env", "A=1", "--env", "A=2"], "A is given twice"),
        (["--env", "A"], "'A' is not NAME=VALUE"),
        (["--runtime", ""], "it is empty"),
        (["--nproc-per-node", "0"], "0 is not in the range x>=1"),
    ],
)
def test_run_refuses_options_of_a_script_that_mean_nothing(arguments, told):
    assert told in refusal(run.command, "train.py", *arguments)


def test_an_address_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        told = told_on_start("--listen", f"127.0.0.1:{port}")

    assert told.startswith(f"ktrain: cannot listen on 127.0.0.1:{port}: Address already in use")


@pytest.mark.parametrize("option", ["--state", "--kubeconfig"])
def test_a_place_that_cannot_be_written_is_told(option, tmp_path):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "below"

    told = told_on_start(option, str(place))

    assert told.startswith("ktrain: ")
    assert str(place) in told
    assert told.endswith("Not a directory")
