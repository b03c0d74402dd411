from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktrain.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus
from ktrain.api.meta import Condition, ObjectMeta
from ktrain.api.trainer import Nodes, Trainer, TrainJob, TrainJobSpec, TrainJobStatus
from ktrain.cli.explain import (
    CREDENTIALS_HINT,
    KILLED_HINT,
    NETWORK_HINT,
    TORCH_HINT,
    describe_end,
    explain_error,
    explain_failure,
    full_disk,
    nothing_ran,
    telling,
)
from ktrain.framework.errors import error_from


def pod(name, code, *, reason="Error", message="", second=0):
    ended = ContainerStateTerminated(
        exit_code=code, reason=reason, message=message, finished_at=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    )
    status = PodStatus(container_statuses=(ContainerStatus(name="node", state=ContainerState(terminated=ended)),))
    return Pod(metadata=ObjectMeta(name=name), status=status)


FAILED = TrainJob(
    metadata=ObjectMeta(name="digits"),
    status=TrainJobStatus(conditions=(Condition("Failed", "True", "FailedJobs", "jobset failed"),)),
)


def test_the_container_that_failed_first_is_named_with_its_last_lines_and_the_condition():
    pods = [pod("digits-1", 143, second=9), pod("digits-0", 3, second=4)]

    lines = explain_failure(FAILED, pods, {("digits-0", "node"): ["one", "two"]})

    assert lines == [
        "Pod digits-0, container node, exited with code 3.",
        "Its last lines:",
        "  one",
        "  two",
        "TrainJob digits has Failed (FailedJobs): jobset failed",
    ]


def test_signals_are_called_by_name():
    assert describe_end(ContainerStateTerminated(exit_code=137)) == "was killed by SIGKILL (exit code 137)"
    assert describe_end(ContainerStateTerminated(exit_code=139)) == "was killed by SIGSEGV (exit code 139)"
    assert describe_end(ContainerStateTerminated(exit_code=255)) == "exited with code 255"


def test_running_out_of_memory_is_said_so():
    ended = ContainerStateTerminated(exit_code=137, reason="OOMKilled")

    assert describe_end(ended) == "ran out of memory and was killed (exit code 137)"


def test_a_missing_torchrun_is_answered_with_the_extra_to_install():
    missing = pod("p", 128, reason="StartError", message="torchrun: not found")

    assert TORCH_HINT in explain_failure(FAILED, [missing], {})


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("ModuleNotFoundError: No module named 'torch.nn'", TORCH_HINT),
        ("/usr/bin/python: No module named torch", TORCH_HINT),
        ("ModuleNotFoundError: No module named 'jax'", "There is no Python module jax where the pod took its programs"),
        ("ModuleNotFoundError: No module named 'sklearn.datasets'", "There is no Python module sklearn where"),
    ],
)
def test_a_missing_module_is_answered_with_where_to_install_it(said, advice):
    *_, hint, _condition = explain_failure(FAILED, [pod("p", 1)], {("p", "node"): ["Traceback", said]})

    assert hint.startswith(advice)


def test_a_job_without_nodes_is_told_to_have_done_nothing():
    def of_size(size, ready=0):
        status = TrainJobStatus(nodes=Nodes(ready, ready))
        return nothing_ran(TrainJob(spec=TrainJobSpec(trainer=Trainer(num_nodes=size)), status=status))

    assert [of_size(None), of_size(2), of_size(0, ready=1), nothing_ran(FAILED)] == [[], [], [], []]
    assert "spec.trainer.numNodes is 0" in of_size(0)[0]


def test_a_download_that_found_no_network_is_answered_with_the_way_out():
    lines = explain_failure(FAILED, [pod("p", 1)], {("p", "node"): ["OSError: [Errno 101] Network is unreachable"]})

    assert NETWORK_HINT in lines


def test_a_job_that_failed_without_any_failed_container_still_says_why():
    assert explain_failure(FAILED, [], {}) == ["TrainJob digits has Failed (FailedJobs): jobset failed"]


def test_a_full_disk_is_named_and_one_with_room_is_not():
    assert "The disk of /tmp is full" in full_disk(Path("/tmp"), 4096)[0]
    assert full_disk(Path("/tmp"), 1 << 30) == []


def test_what_torchrun_adds_is_cut_off_the_last_lines():
    own = ["Traceback (most recent call last):", "ValueError: learning rate must be positive"]
    added = [
        "E1121 14:00:00.1 7 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 1) local_rank: 0",
        "Traceback (most recent call last):",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "====",
    ]

    assert telling([*own, *added]) == own
    assert telling([*own, *added[1:]]) == own
    assert telling(added) == added
    assert telling(own) == own


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1", []),
        ("3", ["Its process 2 exited with code 3."]),
        ("-11", ["Its process 2 was killed by SIGSEGV (exit code 139)."]),
        ("-9", ["Its process 2 was killed by SIGKILL (exit code 137).", KILLED_HINT]),
    ],
)
def test_how_the_program_ended_is_said_where_torchrun_ends_with_a_code_of_its_own(code, said):
    noticed = (
        f"E1122 torch/distributed/elastic/multiprocessing/api.py:1] failed (exitcode: {code}) local_rank: 2 (pid: 6)"
    )

    lines = explain_failure(FAILED, [pod("p", 1)], {("p", "node"): ["its own", noticed]})

    assert lines[1:-1] == ["Its last lines:", "  its own", *said]


def test_credentials_that_are_not_taken_are_answered_with_what_to_do():
    expired = error_from(401, b"", method="GET", path="/api/v1/pods")
    busy = error_from(503, b"", method="GET", path="/api/v1/pods")

    assert explain_error(expired) == [f"error: {expired}", CREDENTIALS_HINT]
    assert len(explain_error(busy)) == 1
