"""
Runs the recorded cases that have passed before; each must pass again.

    python hack/recorded.py DIR             run them all; fail if a listed one fails
    python hack/recorded.py DIR --update    run three times, and list what passed every time
    python hack/recorded.py DIR jobset      one suite only
    python hack/recorded.py DIR trainer --real     on the kube-apiserver of KUBEBUILDER_ASSETS; for jobset and trainer

DIR holds three suites, recorded from the real thing or proven on it: `conformance` (what an API server answers),
`golden/jobset` (traces of the JobSet controller) and `golden` (what the Go Trainer makes of a TrainJob). Each runs
against a `ktrain up --pods off` of its own, side by side; traces that need feature gates, or a controller that can be
stopped, run on `hack/operator_plane.py` afterwards, and with --real all cases do: there the operator is a process of
its own, and the API server calls its webhooks. `tests/recorded/*.txt` list what has passed; a listed case that fails,
or did not run, makes the exit status 1. The last line is `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import shlex
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "recorded"
RUNS_BEFORE_LISTING = 3
READY_WITHIN_S = 90.0
RUN_WITHIN_S = 330.0
REAL_WITHIN_S = 900.0
"""A real control plane takes minutes on a machine that others use, too."""
GATES = "RestartJob,ElasticJobSet,InPlaceRestart"
PLANE = ROOT / "hack" / "operator_plane.py"
PROGRAM = {**os.environ, "PYTHONPATH": str(ROOT)}
# The suites lie where they may not be written to.
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

Outcomes = dict[str, str]
"""What became of each case: nothing to say if it passed, else what its runner said."""


class Broken(Exception):
    """A suite could not be run at all."""


@dataclass(frozen=True)
class Suite:
    """
    One suite of cases.

    `run` runs it, given the directory of all suites, against servers of its own; `run_real` on a real kube-apiserver.
    """

    name: str
    run: Callable[[Path], Awaitable[Outcomes]]
    run_real: Callable[[Path], Awaitable[Outcomes]] | None = None

    @property
    def list_file(self) -> Path:
        return LISTS / f"{self.name}.txt"

    def listed(self) -> set[str]:
        return set(self.list_file.read_text().split()) if self.list_file.exists() else set()


def conformance_command(directory: Path, kubeconfig: Path, report: Path) -> list[str]:
    suite = str(directory / "conformance")
    options = [f"--rootdir={suite}", f"--kubeconfig={kubeconfig}", f"--junitxml={report}"]
    return ["-m", "pytest", "-c", f"{suite}/pytest.ini", *options, suite]


def conformance_outcomes(_output: str, report: Path) -> Outcomes:
    found: Outcomes = {}
    if not report.exists():
        return found
    for case in ET.parse(report).iter("testcase"):
        names = [entry.get("value", "") for entry in case.iter("property") if entry.get("name") == "check"]
        if not names or case.find("skipped") is not None:
            continue
        problem = next((p for p in (case.find("failure"), case.find("error")) if p is not None), None)
        found[names[0]] = "" if problem is None else problem.get("message", "failed")
    return found


def trainer_command(directory: Path, _kubeconfig: Path, _report: Path) -> list[str]:
    # A case that cannot pass waits for its time-out; beside each other they cost little.
    return [str(directory / "golden" / "check.py"), "-j", "10"]


def line_outcomes(output: str, _report: Path) -> Outcomes:
    """Read `PASS name (1.2s)` and `FAIL name (1.2s)`, the latter followed by indented lines that say why."""
    found: Outcomes = {}
    failed = ""
    for line in output.splitlines():
        if match := re.match(r"(pass|fail)\s+(\S+) \(", line, re.IGNORECASE):
            failed = match[2] if match[1].lower() == "fail" else ""
            found[match[2]] = "failed" if failed else ""
        elif failed and line.startswith("    "):
            found[failed] = f"{found[failed]}\n{line}"
        else:
            failed = ""
    return found


async def run_on_up(
    command: Callable[[Path, Path, Path], list[str]], outcomes: Callable[[str, Path], Outcomes], directory: Path
) -> Outcomes:
    """
    Run a suite against one `ktrain up`.

    `command` makes its command from the directory of all suites, a kubeconfig and a file for a report; `outcomes` reads
    what it printed and that file.
    """
    with tempfile.TemporaryDirectory(prefix="ktrain-recorded-") as folder:
        kubeconfig, report = Path(folder, "kubeconfig"), Path(folder, "report.xml")
        up = ["-m", "ktrain", "up", "--pods", "off", "--kubeconfig", str(kubeconfig)]
        async with serving(up):
            output = await run(command(directory, kubeconfig, report), kubeconfig)
        return outcomes(output, report)


async def run_trainer_on_real(directory: Path) -> Outcomes:
    """Run the cases of the Trainer on a real API server."""
    with tempfile.TemporaryDirectory(prefix="ktrain-recorded-") as folder:
        kubeconfig = Path(folder, "kubeconfig")
        async with serving([str(PLANE), "serve", folder, "--real"]):
            output = await run(trainer_command(directory, kubeconfig, Path(folder, "report")), kubeconfig)
    return line_outcomes(output, kubeconfig)


async def run_traces(directory: Path, *, real: bool = False) -> Outcomes:
    """
    Run the traces of the JobSet controller: all without feature gates, then with gates those that were skipped.

    On a real API server the controller is a process of its own, so that all traces with hooks run at first.
    """
    suite = directory / "golden" / "jobset"
    traces = [str(suite / "run.py"), str(suite / "traces")]
    with tempfile.TemporaryDirectory(prefix="ktrain-recorded-") as folder:
        plain, gated = Path(folder, "plain"), Path(folder, "gated")
        if real:
            async with serving([str(PLANE), "serve", str(plain), "--real"]):
                output = await run_at(plain / "kubeconfig", [*traces, *hooks(plain)])
        else:
            kubeconfig = Path(folder, "kubeconfig")
            async with serving(["-m", "ktrain", "up", "--pods", "off", "--kubeconfig", str(kubeconfig)]):
                output = await run_at(kubeconfig, traces)
        found = line_outcomes(output, plain)
        skipped = re.findall(r"^SKIP (\S+):", output, re.MULTILINE)
        if skipped:
            serve = [str(PLANE), "serve", str(gated), "--gates", GATES, *(["--real"] if real else [])]
            only = ["--gates", GATES, "-k", f"^({'|'.join(map(re.escape, skipped))})$"]
            async with serving(serve):
                output = await run_at(gated / "kubeconfig", [*traces, *only, *hooks(gated)])
            found |= line_outcomes(output, gated)
    return found


async def run_at(kubeconfig: Path, arguments: list[str]) -> str:
    """Run a program that takes its kubeconfig as an option."""
    return await run([*arguments, "--kubeconfig", str(kubeconfig)], kubeconfig)


def hooks(directory: Path) -> list[str]:
    """Options that tell the traces' runner how to stop and start the controller."""
    options = []
    for deed in ("stop", "start", "restart"):
        command = shlex.join([sys.executable, str(PLANE), deed, str(directory)])
        options += ["--hook", f"{deed}-controller={command}"]
    return options


SUITES = (
    Suite("conformance", partial(run_on_up, conformance_command, conformance_outcomes)),
    Suite("jobset", run_traces, partial(run_traces, real=True)),
    Suite("trainer", partial(run_on_up, trainer_command, line_outcomes), run_trainer_on_real),
)


async def run_suite(suite: Suite, directory: Path, *, real: bool) -> Outcomes:
    """
    Run one suite.

    Raises:
        Broken: A server did not start, or the suite did not say what became of any case.
    """
    run_it = suite.run_real if real else suite.run
    assert run_it is not None
    outcomes = await run_it(directory)
    if not outcomes:
        raise Broken(f"{suite.name} ran no case")
    return outcomes


@contextlib.asynccontextmanager
async def serving(arguments: list[str]) -> AsyncIterator[None]:
    """
    Run a Python program that serves until the block ends; it prints `ready` when it does.

    Its warnings are shown only if it fails: the cases provoke many.
    """
    name = " ".join(arguments[:3])
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, cwd=ROOT, env=PROGRAM, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                ready = (await process.stdout.readline()).startswith(b"ready")
            if ready:
                yield
            if not ready or process.returncode is not None:
                log.seek(0)
                tail = log.read()[-3000:].decode(errors="replace")
                raise Broken(f"{name} {'ended during the run' if ready else 'did not become ready'}:\n{tail}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def run(arguments: list[str], kubeconfig: Path) -> str:
    """Run a Python program to its end; returns what it printed. Its children end with it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**ENVIRONMENT, "KUBECONFIG": str(kubeconfig)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return output.decode(errors="replace")


async def run_all(suites: list[Suite], directory: Path, *, real: bool) -> list[Outcomes]:
    """Run suites side by side, on real servers one after the other; returns what became of their cases."""
    turns = asyncio.Semaphore(1 if real else len(suites))

    async def in_turn(suite: Suite) -> Outcomes:
        async with turns:
            return await run_suite(suite, directory, real=real)

    async with asyncio.timeout(REAL_WITHIN_S if real else RUN_WITHIN_S), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(in_turn(suite)) for suite in suites]
    return [task.result() for task in running]


def compare(suite: Suite, outcomes: Outcomes) -> tuple[int, int]:
    """Print what differs from the list; returns how many listed cases passed and failed."""
    listed = suite.listed()
    failed = {name: outcomes.get(name, "did not run") for name in listed if outcomes.get(name) != ""}
    for name, why in sorted(failed.items()):
        print(f"FAIL {suite.name} {name}: {why}")
    new = sorted(name for name, why in outcomes.items() if not why and name not in listed)
    if new:
        print(f"{suite.name}: {len(new)} more passed, which --update lists: {' '.join(new)}")
    print(f"{suite.name}: {len(listed) - len(failed)} of {len(listed)} listed cases passed")
    return len(listed) - len(failed), len(failed)


def update(suite: Suite, runs: list[Outcomes]) -> None:
    """List what passed in every run, beside what is listed already."""
    steady = {name for name in runs[0] if all(outcomes.get(name) == "" for outcomes in runs)}
    unsteady = {name for outcomes in runs for name, why in outcomes.items() if not why} - steady
    if unsteady:
        print(f"{suite.name}: not listed, as they did not pass every time: {' '.join(sorted(unsteady))}")
    added = steady - suite.listed()
    suite.list_file.parent.mkdir(exist_ok=True)
    suite.list_file.write_text("".join(f"{name}\n" for name in sorted(suite.listed() | steady)))
    print(f"{suite.name}: {len(added)} added")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the suites are")
    parser.add_argument("suites", nargs="*", help="of: " + ", ".join(suite.name for suite in SUITES))
    parser.add_argument("--update", action="store_true", help="add to the lists what passes three times")
    parser.add_argument("--real", action="store_true", help="run jobset and trainer on a real kube-apiserver")
    options = parser.parse_args()
    possible = [suite for suite in SUITES if suite.run_real or not options.real]
    if unknown := set(options.suites) - {suite.name for suite in possible}:
        parser.error(f"no such suite{' for --real' if options.real else ''}: {', '.join(sorted(unknown))}")
    suites = [suite for suite in possible if not options.suites or suite.name in options.suites]
    within_s = REAL_WITHIN_S if options.real else RUN_WITHIN_S
    started = time.monotonic()
    try:
        repeats = RUNS_BEFORE_LISTING if options.update else 1
        runs = [asyncio.run(run_all(suites, options.directory.resolve(), real=options.real)) for _ in range(repeats)]
    except (BaseExceptionGroup, TimeoutError) as error:
        problems = error.exceptions if isinstance(error, BaseExceptionGroup) else [f"not done in {within_s:g} s"]
        for problem in problems:
            print(f"recorded: {str(problem) or type(problem).__name__}", file=sys.stderr)
        return 1
    if options.update:
        for number, suite in enumerate(suites):
            update(suite, [outcomes[number] for outcomes in runs])
    counts = [compare(suite, outcomes) for suite, outcomes in zip(suites, runs[-1], strict=True)]
    passed, failed = (sum(numbers) for numbers in zip(*counts, strict=True))
    print(f"{passed} passed, {failed} failed in {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
