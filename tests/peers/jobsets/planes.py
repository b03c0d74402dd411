"""
Two control planes for JobSets: a real one with the JobSet operator, and ktrain's.

Ours is the embedded one, `ktrain up`, or with `KTRAIN_PEERS_PLANE=operator` a real one with `ktrain operator`.
`KTRAIN_PEERS_GATES` names the feature gates that are on, as `ktrain up` takes them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import anyio
import yaml

from ..stack import ROOT, Operator, control_plane, point_webhooks_at, running, upstream_crds
from .watching import Watched
from .writing import GATES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READY_WITHIN_S = 90.0


@contextmanager
def two_planes(directory: Path) -> Iterator[tuple[Watched, Watched]]:
    """Run both; Go's is the first."""
    ours = _real if os.environ.get("KTRAIN_PEERS_PLANE") == "operator" else _embedded
    found: list[Watched] = []
    with ExitStack() as watches, ExitStack() as stack:
        kubeconfig = stack.enter_context(control_plane(directory / "go", upstream_crds()))
        operator = Operator(directory / "go", "jobset")
        gate(operator)
        stack.callback(operator.stop)
        operator.start()
        anyio.run(point_webhooks_at, kubeconfig, operator)
        # Watches end when the servers have.
        for name, config in (("Go", kubeconfig), ("ktrain", stack.enter_context(ours(directory / "ktrain")))):
            found.append(Watched(name, config))
            watches.callback(found[-1].close)
        yield found[0], found[1]


def gate(operator: Operator) -> None:
    """Turn the feature gates on."""
    configuration = yaml.safe_load(operator.file.read_text())
    operator.file.write_text(yaml.safe_dump(configuration | {"featureGates": dict.fromkeys(GATES, True)}))


@contextmanager
def _real(directory: Path) -> Iterator[Path]:
    with running(directory, ktrain=True):
        yield directory / "kubeconfig"


@contextmanager
def _embedded(directory: Path) -> Iterator[Path]:
    directory.mkdir(parents=True)
    kubeconfig, log = directory / "kubeconfig", directory / "log"
    command = [sys.executable, "-m", "ktrain", "up", "--pods", "off", "--kubeconfig", str(kubeconfig)]
    command += ["--feature-gates", ",".join(GATES)] if GATES else []
    with log.open("wb") as output:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=output, env=environment)
    try:
        assert process.stdout is not None
        if not process.stdout.readline().startswith(b"ready "):
            raise RuntimeError(f"ktrain up did not start:\n{log.read_text()[-3000:]}")
        yield kubeconfig
    finally:
        process.terminate()
        process.communicate()  # waits, and closes the pipe
