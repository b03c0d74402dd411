"""Why a TrainJob failed, as a person would say it. Pure functions of what was observed last."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ktrain.api.meta import find_condition
from ktrain.api.trainer import CONDITION_FAILED, TrainJob
from ktrain.framework.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ktrain.api.core import ContainerStateTerminated, Pod

LOG_LINES = 10
FULL_BELOW = 1 << 20
_TORCHRUN_NOTICED = re.compile(r"torch/distributed/elastic/\S+ failed \(exitcode: (-?\d+)\)(?: local_rank: (\d+))?")
_EPOCH = datetime.fromtimestamp(0, UTC)

TORCH_HINT = "PyTorch is not installed in this environment. Install it with: pip install 'ktrain-operator[torch]'"
MODULE_HINT = (
    "There is no Python module {} where the pod took its programs from. Images are not run on this machine: install "
    "what the job needs into the environment that ktrain is started in. On a cluster the image has to bring it."
)
NETWORK_HINT = (
    "Pods in namespaces of their own do not reach the network outside. If the program downloads something, run it with "
    "--pods host, or set hostNetwork: true in its pod template."
)
KILLED_HINT = (
    "Nothing in the job sends SIGKILL. Most often it is the kernel, when the machine runs out of memory (dmesg tells): "
    "try smaller batches, fewer workers of a DataLoader, or fewer processes."
)
CREDENTIALS_HINT = (
    "The cluster does not take these credentials: they may have expired. Log in again, or see the user of this context "
    "in the kubeconfig; `kubectl auth whoami` tries the same ones."
)
_MODULE = re.compile(r"No module named '?([A-Za-z_]\w*)")
_UNREACHABLE = ("Temporary failure in name resolution", "Network is unreachable", "Failed to resolve")


@dataclass(frozen=True, slots=True)
class Culprit:
    """The container that failed first."""

    pod: str
    container: str
    ended: ContainerStateTerminated


def find_culprit(pods: Sequence[Pod]) -> Culprit | None:
    """
    The container that failed first, by the time it ended.

    The others of a job usually fail because the first one did, or are stopped for it, so they explain nothing.
    """
    found: list[tuple[datetime, Culprit]] = []
    for pod in pods:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            ended = status.state.terminated or status.last_state.terminated
            if ended is not None and ended.exit_code != 0:
                culprit = Culprit(pod.metadata.name, status.name, ended)
                found.append((ended.finished_at or _EPOCH, culprit))
    return min(found, key=lambda item: item[0])[1] if found else None


def describe_end(ended: ContainerStateTerminated) -> str:
    """`exited with code 3`, `was killed by SIGKILL (exit code 137)`, `could not start: ...`."""
    if ended.reason == "StartError":
        return f"could not start: {ended.message or 'no message'}"
    if ended.reason == "OOMKilled":
        return f"ran out of memory and was killed (exit code {ended.exit_code})"
    return _describe_code(ended.exit_code)


def _describe_code(code: int) -> str:
    if code > 128:
        try:
            name = signal.Signals(code - 128).name
        except ValueError:
            return f"exited with code {code}"
        return f"was killed by {name} (exit code {code})"
    return f"exited with code {code}"


def describe_process(log: Sequence[str]) -> list[str]:
    """How the program itself ended, where torchrun hides that behind its own code 1; and what SIGKILL means."""
    found = next((match for line in log if (match := _TORCHRUN_NOTICED.search(line))), None)
    if found is None or found[1] == "1":
        return []
    code = int(found[1])
    killed = [KILLED_HINT] if code == -signal.SIGKILL else []
    return [f"Its process {found[2] or 0} {_describe_code(code if code >= 0 else 128 - code)}.", *killed]


def hint(ended: ContainerStateTerminated, log: Sequence[str]) -> str | None:
    """What to do about failures whose cause is known."""
    text = "\n".join(log)
    if ended.reason == "StartError" and "torchrun" in ended.message:
        return TORCH_HINT
    if missing := _MODULE.search(text):
        return TORCH_HINT if missing[1] == "torch" else MODULE_HINT.format(missing[1])
    if any(words in text for words in _UNREACHABLE):
        return NETWORK_HINT
    return None


def nothing_ran(job: TrainJob) -> list[str]:
    """What to say of a job that is Complete because it had nothing to do."""
    # For torch, 0 is one node on its own.
    if job.spec.trainer is None or job.spec.trainer.num_nodes != 0 or (job.status.nodes and job.status.nodes.ready):
        return []
    return [f"TrainJob {job.metadata.name} had no nodes: its spec.trainer.numNodes is 0. Is it meant to be?"]


def explain_error(error: Exception) -> list[str]:
    """Say what kept a job from being run or followed, and what to do where that is known."""
    return [f"error: {error}", *([CREDENTIALS_HINT] if isinstance(error, Unauthorized) else [])]


def full_disk(directory: Path, free_bytes: int) -> list[str]:
    """What to say when programs may have failed, silently, because their logs could not be written."""
    if free_bytes >= FULL_BELOW:
        return []
    return [f"The disk of {directory} is full: logs and temporary files of pods may be missing. Set TMPDIR to another."]


def telling(log: Sequence[str]) -> list[str]:
    """
    The last lines of a log that tell something: without the summary that torchrun adds below the program's own words.

    torchrun says that a child failed, with which code, and then where its own code noticed.
    """
    cut = next((i for i, line in enumerate(log) if _TORCHRUN_NOTICED.search(line)), None)
    if cut is None:
        summary = next((i for i, line in enumerate(log) if "ChildFailedError" in line), len(log))
        starts = [i for i in range(summary) if log[i].startswith("Traceback (most recent call last)")]
        cut = starts[-1] if starts and summary < len(log) else len(log)
    return list(log[:cut] or log)[-LOG_LINES:]


def explain_failure(job: TrainJob, pods: Sequence[Pod], logs: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    """
    Write the last words about a failed TrainJob.

    Args:
        job: The TrainJob as last seen.
        pods: Its pods as last seen, deleted ones included.
        logs: The last lines of each (pod, container).
    """
    lines: list[str] = []
    culprit = find_culprit(pods)
    failed = find_condition(job.status.conditions, CONDITION_FAILED)
    if culprit is not None:
        whole = logs.get((culprit.pod, culprit.container), ())
        log = telling(whole)
        lines.append(f"Pod {culprit.pod}, container {culprit.container}, {describe_end(culprit.ended)}.")
        if culprit.ended.message and culprit.ended.reason != "StartError":
            lines.append(f"It left the message: {culprit.ended.message.strip()}")
        if log:
            lines.append("Its last lines:")
            lines.extend(f"  {line}" for line in log)
        lines.extend(describe_process(whole))
        if advice := hint(culprit.ended, whole):
            lines.append(advice)
    if failed is not None:
        lines.append(f"TrainJob {job.metadata.name} has Failed ({failed.reason}): {failed.message}")
    return lines
