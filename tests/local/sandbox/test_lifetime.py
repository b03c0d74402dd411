"""Nothing outlives the runner, however it ends, and two runners do not meet."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ktrain.local.sandbox.executor import SandboxError

from ...waiting import until

BOTH = pytest.mark.parametrize("mode", [pytest.param("ns", marks=pytest.mark.ns), "host"])

RUNNER = """
import asyncio, json, sys
from ktrain.local.sandbox.executor import Mount, ProcessSpec, SandboxSpec
from ktrain.local.sandbox.probe import choose

async def main(mode, link):
    executor = (await choose(mode)).executor
    pids = []
    for number in range(2):
        root = executor.directory / f"pod{number}"
        (root / "volume").mkdir(parents=True)
        sandbox = await executor.create_sandbox(
            SandboxSpec(uid=f"u{number}", namespace="default", name="p", hostname="p", root=root)
        )
        process = await sandbox.start(ProcessSpec(
            argv=("sh", "-c", f"setsid sleep 97531 & echo $0; exec sleep 97531", f"{link}{number}"),
            env={"PATH": "/usr/bin:/bin"}, cwd="/", log=root / "log",
            mounts=(Mount(root / "volume", f"{link}{number}"),),
        ))
        pids.append(process.pid)
    print(json.dumps({"pids": pids, "directory": str(executor.directory)}), flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


class Runner:
    """A ktrain of another process, with two pods running."""

    def __init__(self, mode: str, link: str, temporary: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, mode, link],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | ({"TMPDIR": str(temporary)} if temporary else {}),
        )
        line = self.process.stdout.readline()
        if not line:
            error = self.process.communicate()[1].strip().splitlines()[-1]
            pytest.skip(error)
        told = json.loads(line)
        self.pids: list[int] = told["pids"]
        self.directory: str = told["directory"]

    def kill(self) -> None:
        self.process.kill()
        # The helper holds stderr open: its end means that the helper, and all it held, is gone.
        self.process.communicate(timeout=20)


@BOTH
def test_sigkill_of_the_runner_leaves_nothing(mode, tmp_path, machine) -> None:
    runner = Runner(mode, str(tmp_path / "link"))
    namespaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in runner.pids}
    runner.kill()

    assert all(machine.ends(pid, 0) for pid in runner.pids)
    assert machine.running(f" of {runner.process.pid}") == []
    assert machine.running(f"{tmp_path}/link") == []
    assert not machine.has(runner.directory)
    assert list(tmp_path.iterdir()) == []
    assert runner.directory not in Path("/proc/self/mountinfo").read_text()
    if mode == "ns":
        assert namespaces.isdisjoint(living_namespaces())


@BOTH
def test_two_runners_live_and_die_apart(mode, tmp_path, machine) -> None:
    first, second = Runner(mode, str(tmp_path / "a")), Runner(mode, str(tmp_path / "b"))
    first.kill()

    assert machine.has(second.directory)
    assert not any(machine.ends(pid, 0) for pid in second.pids)
    second.kill()
    assert not machine.has(second.directory)


@BOTH
def test_signals_do_not_keep_the_janitor_from_removing_the_directory(mode, tmp_path, machine) -> None:
    """A runner's death tells it twice, by end-of-file and by signal, and the second may come when it is at work."""
    runner = Runner(mode, str(tmp_path / "link"))
    for number in range(1000):
        (Path(runner.directory) / f"{number}").touch()
    (janitor,) = machine.running(f"sandbox-janitor of {runner.process.pid}")
    (holder,) = machine.running(f"sandbox-holder of {runner.process.pid}")
    os.kill(holder, signal.SIGKILL)
    while not machine.ends(janitor, 0):
        os.kill(janitor, signal.SIGTERM)

    assert not machine.has(runner.directory)
    assert list(tmp_path.iterdir()) == [], "links go, too"
    runner.kill()


@BOTH
def test_who_kills_all_that_is_called_ktrain_spares_what_cleans_up(mode, tmp_path, machine) -> None:
    runner = Runner(mode, str(tmp_path / "link"))
    helpers = machine.running(f" of {runner.process.pid}")
    called_ktrain = {runner.process.pid, *helpers} & set(machine.running("ktrain"))

    assert len(helpers) >= 6, "janitor, holder, and for each of two pods an init and a supervisor"
    assert called_ktrain == {runner.process.pid}
    runner.kill()


@BOTH
def test_the_next_runner_removes_what_nobody_was_left_to_remove(mode, tmp_path, machine) -> None:
    first, living = (Runner(mode, str(tmp_path / name), tmp_path) for name in ("a", "b"))
    (Path(first.directory) / "pod0" / "volume" / "outside").symlink_to(living.directory)
    for pid in machine.running(f"sandbox-janitor of {first.process.pid}"):
        os.kill(pid, signal.SIGKILL)
    first.kill()
    assert machine.has(first.directory)

    third = Runner(mode, str(tmp_path / "c"), tmp_path)
    third.kill()

    assert not machine.has(first.directory)
    assert not machine.has(third.directory)
    assert machine.has(f"{living.directory}/pod0/log")
    living.kill()


@pytest.mark.parametrize("which", ["janitor", "holder", "pod"])
async def test_sigkill_of_a_helper_process_ends_what_is_below_and_the_runner_knows(pod, machine, which) -> None:
    first = await pod()
    process = await first.start("sh", "-c", "setsid sleep 86420 & exec sleep 86421")
    await until(lambda: len(machine.running("sleep 8642")) == 2, within_s=10)
    (victim,) = machine.running(f"sandbox-{which} of {os.getpid()}")
    os.kill(victim, signal.SIGKILL)

    async with asyncio.timeout(10):
        assert await process.wait() == 137
        await pod.executor.aclose() if which != "pod" else await first.sandbox.kill()
        # The kernel ends them, and tells nobody here.
        await until(lambda: not machine.running("sleep 8642"), within_s=10)
    with pytest.raises(SandboxError):
        await first.start("true")


def living_namespaces() -> set[str]:
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue
    return found


def test_the_helper_imports_little_and_nothing_that_is_installed() -> None:
    """It must start in milliseconds, and must not depend on the user's environment."""
    root = Path(__file__).parents[3]
    list_modules = (
        f"import sys; sys.path.append({str(root)!r}); import ktrain.local.sandbox.helper.main; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", list_modules], capture_output=True, text=True, check=True)
    modules = {name.split(".")[0] for name in done.stdout.split()} - {"ktrain", "__main__"}

    assert modules <= sys.stdlib_module_names
    assert modules.isdisjoint(
        {"asyncio", "inspect", "logging", "pathlib", "shutil", "subprocess", "traceback", "typing"}
    )
