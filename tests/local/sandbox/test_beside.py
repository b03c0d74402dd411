"""A program beside another one: in its container, with descriptors of its own, and gone with it."""

import asyncio
import os
import signal

import pytest

from ktrain.local.sandbox.executor import Mount, StartError, Stdio


def piped():
    """A pipe as standard output; returns (Stdio, read end)."""
    read_end, write_end = os.pipe()
    return Stdio(write_end, write_end, write_end), read_end


def output(read_end):
    with os.fdopen(read_end, "rb") as pipe:
        return pipe.read()


async def run_beside(pod, process, *argv, **rest):
    """Run a program beside a process; returns its exit code and what it said."""
    stdio, read_end = piped()
    try:
        started = await pod.sandbox.start(pod.spec(*argv, stdio=stdio, **rest), beside=process)
    finally:
        os.close(stdio.stdout)
    said = await asyncio.to_thread(output, read_end)
    return await started.wait(), said.decode()


async def test_it_writes_where_it_is_told_and_its_exit_code_comes_back(pod):
    place = await pod()
    main = await place.start("sleep", "1000")

    assert await run_beside(place, main, "sh", "-c", "echo out; echo err >&2; exit 7") == (7, "out\nerr\n")


@pytest.mark.ns
async def test_it_sees_the_processes_and_the_files_of_the_container(ns_pod, tmp_path):
    place = await ns_pod()
    (tmp_path / "file").write_text("shared")
    main = await place.start("sleep", "4242", mounts=(Mount(tmp_path, "/workspace/data"),))
    script = "cat /workspace/data/file; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; hostname"
    _, said = await run_beside(place, main, "sh", "-c", script)

    assert said.startswith("shared")
    assert "sleep 4242" in said
    assert said.endswith("tj-node-0-0\n")


async def test_it_ends_with_the_process_it_is_beside(pod, machine):
    place = await pod()
    main = await place.start("sleep", "1000")
    stdio, read_end = piped()
    beside = await place.sandbox.start(place.spec("sleep", "1000", stdio=stdio), beside=main)
    for fd in (stdio.stdout, read_end):
        os.close(fd)

    main.signal(9)

    assert await main.wait() == 137
    assert await beside.wait() == 137
    assert machine.ends(beside.pid)


async def test_beside_a_process_that_has_ended_nothing_starts(pod):
    place = await pod()
    main = await place.start("true")
    await main.wait()

    with pytest.raises(StartError, match="the container has ended"):
        await run_beside(place, main, "true")


async def test_a_program_that_does_not_exist_is_an_error_that_names_it(pod):
    place = await pod()
    main = await place.start("sleep", "1000")

    with pytest.raises(StartError, match="no-such-program"):
        await run_beside(place, main, "no-such-program")


async def test_a_terminal_is_its_controlling_terminal_and_hangs_up_when_it_goes(pod):
    place = await pod()
    main = await place.start("sleep", "1000")
    ours, theirs = os.openpty()
    stdio = Stdio(theirs, theirs, theirs, terminal=True)
    shell = await place.sandbox.start(place.spec("sh", "-c", "test -t 0 && echo yes; read x; sleep 1000", stdio=stdio))
    os.close(theirs)

    assert (await asyncio.to_thread(os.read, ours, 100)).strip() == b"yes"
    os.close(ours)

    assert await asyncio.wait_for(shell.wait(), 30) in (0, 1, 129)
    main.signal(9)


@pytest.fixture
def ignoring_hangups():
    """This process as `nohup` leaves it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


async def test_signals_that_the_runner_ignores_are_not_ignored_by_programs(ignoring_hangups, pod):
    place = await pod()
    stdio, read_end = piped()
    main = await place.sandbox.start(place.spec("sh", "-c", "kill -HUP $$; echo survived", stdio=stdio))
    os.close(stdio.stdout)

    assert await asyncio.wait_for(main.wait(), 30) == 129
    assert output(read_end) == b""


async def test_it_can_be_killed_alone(pod):
    place = await pod()
    main = await place.start("sleep", "1000")
    stdio, read_end = piped()
    beside = await place.sandbox.start(place.spec("sleep", "1000", stdio=stdio), beside=main)
    os.close(stdio.stdout)
    os.close(read_end)

    beside.signal(15)

    assert await beside.wait() == 143
    assert await run_beside(place, main, "true") == (0, "")
