"""The demo: a real model, trained by torchrun on two nodes; and what happens when one of its processes is killed."""

import contextlib
import os
import re
import signal
import uuid
from pathlib import Path

import pytest

from ..waiting import eventually
from . import conftest
from .conftest import BOTH_WAYS, ROOT, processes_with

pytestmark = [pytest.mark.e2e, pytest.mark.torch]

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[demo]'")
pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install '.[demo]'")

LONG = "100000"


@pytest.fixture
def digits(tmp_path):
    """The demo's TrainJob in a directory that looks like the repository."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def write(epochs):
        text = (ROOT / "examples/digits/trainjob.yaml").read_text()
        file = tmp_path / "digits.yaml"
        file.write_text(text.replace("--epochs=40", f"--epochs={epochs}"))
        return file

    return write


def test_the_demo_trains_a_model_that_reads_digits_it_never_saw(ktrain, digits):
    code, output = ktrain("run", digits(40))

    assert code == 0, output
    assert "[node-0] training on 2 ranks" in output
    accuracy = float(re.search(r"held-out accuracy: ([\d.]+)", output)[1])
    assert accuracy >= 0.95


def test_the_first_job_of_the_installation_guide_needs_no_file(ktrain, example):
    code, output = ktrain("run", example("hello.yaml"))

    assert code == 0, output
    assert "[node-1] rank 1 of 2: the sum is 3" in output


@pytest.mark.slow
@pytest.mark.parametrize("pods", BOTH_WAYS)
def test_two_nodes_with_two_ranks_each_train_one_model(ktrain, example, pods, monkeypatch):
    monkeypatch.setattr(conftest, "PATIENCE_S", 240)  # four times PyTorch start on what may be two cores
    code, output = ktrain("run", "--pods", pods, example("digits/two-by-two.yaml"))

    assert code == 0, output
    assert "[node-0] training on 4 ranks, 2 on each of 2 nodes" in output
    assert float(re.search(r"held-out accuracy: ([\d.]+)", output)[1]) >= 0.95


def kill_one(marker, has):
    """Kill the first process of the run whose command line has these words."""
    for pid in sorted(processes_with(marker)):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            if has(command):
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError("no such process")


@pytest.mark.parametrize(
    "has",
    [
        pytest.param(lambda command: "torchrun" not in command and "digits/train.py" in command, id="rank"),
        pytest.param(lambda command: "torchrun" in command, id="agent"),
    ],
)
def test_a_killed_process_of_a_rank_fails_the_job_with_a_reason(start, digits, has):
    marker = uuid.uuid4().hex
    running = start("run", digits(LONG), env={"LC_TEST": marker})
    running.wait_for("epoch 10/")

    kill_one(marker, has)

    assert running.finish() == 1, running.output
    assert "TrainJob digits has Failed" in running.output
    assert not processes_with(marker)


def test_a_killed_ktrain_takes_the_training_with_it(start, digits, temporary):
    marker = uuid.uuid4().hex
    running = start("run", digits(LONG), env={"LC_TEST": marker})
    running.wait_for("epoch 10/")

    running.process.send_signal(signal.SIGKILL)
    running.process.wait()

    eventually(lambda: not processes_with(marker))
    eventually(lambda: list(temporary.iterdir()) == [])
