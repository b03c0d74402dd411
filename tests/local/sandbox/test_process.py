"""What holds for processes in both modes."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from ktrain.local.sandbox.executor import Mount, SandboxError, StartError


async def test_a_process_ends_with_its_own_exit_code(pod) -> None:
    first = await pod()

    assert await first.run("sh", "-c", "echo out; echo err >&2; exit 3") == (3, "out\nerr\n")


async def test_death_by_signal_n_is_exit_code_128_plus_n(pod) -> None:
    first = await pod()

    assert (await first.run("sh", "-c", "kill -SEGV $$"))[0] == 139


async def test_a_signal_reaches_the_main_process(pod) -> None:
    first = await pod()
    process = await first.start(
        "sh", "-c", "trap 'echo got it; exit 7' TERM; echo trapped; while :; do sleep 0.01; done"
    )
    await first.until_logged("trapped")
    process.signal(signal.SIGTERM)

    assert await process.wait() == 7
    assert "got it" in first.log


async def test_a_program_without_a_handler_dies_of_sigterm_as_under_an_init(pod) -> None:
    process = await (await pod()).start("sleep", "1000")
    process.signal(signal.SIGTERM)

    assert await process.wait() == 143


async def test_the_environment_is_exactly_what_was_given(pod) -> None:
    first = await pod()
    big = {f"BIG{n}": "x" * 100_000 for n in range(5)}
    code, log = await first.run(
        "sh", "-c", "echo $A ${#BIG4} ${HOME-no home}", env={"PATH": "/usr/bin:/bin", "A": "ü", **big}
    )

    assert (code, log) == (0, "ü 100000 no home\n")


async def test_logs_are_appended_to_so_that_they_may_be_truncated(pod) -> None:
    first = await pod()
    (first.root / "log").write_text("before\n")

    assert await first.run("echo", "after") == (0, "before\nafter\n")


async def test_a_process_works_where_it_was_told_to(pod) -> None:
    first = await pod()

    assert (await first.run("pwd", cwd=str(first.root)))[1] == f"{first.root}\n"


@pytest.mark.parametrize(
    ("content", "mode", "sentence"),
    [
        (None, 0, "no such program"),
        ("#!/no/such/interpreter\n", 0o755, "interpreter in its first line"),
        ("#!/bin/sh\n", 0o644, f"not executable by user {os.geteuid()}"),
        ("not a program\n", 0o755, "no script with a first line"),
    ],
)
async def test_a_program_that_cannot_start_is_named(pod, content, mode, sentence) -> None:
    first = await pod()
    program = first.root / "program"
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    with pytest.raises(StartError, match=sentence) as caught:
        await first.start(str(program))

    assert caught.value.exit_code == 128
    assert str(program) in caught.value.message


async def test_a_command_that_is_not_in_the_path_is_named(pod) -> None:
    with pytest.raises(StartError, match=r"nosuch: no such program in PATH \(/usr/bin\)"):
        await (await pod()).start("nosuch", env={"PATH": "/usr/bin"})


async def test_a_missing_working_directory_is_named(pod) -> None:
    with pytest.raises(StartError, match="/no/such/place: cannot work in it"):
        await (await pod()).start("true", cwd="/no/such/place")


async def test_a_missing_mount_source_is_named(pod) -> None:
    first = await pod()
    with pytest.raises(StartError, match="/no/such/volume"):
        await first.start("true", mounts=(Mount(first.root / "no/such/volume", "/data"),))


async def test_a_failed_start_leaves_the_sandbox_usable(pod) -> None:
    first = await pod()
    with pytest.raises(StartError):
        await first.start("nosuch")

    assert await first.run("echo", "still here") == (0, "still here\n")


ESCAPEES = "setsid sleep 8641 & (setsid sh -c 'sleep 8642 & exec sleep 8643' &) ; echo up; {then}"


async def test_kill_reaches_children_with_sessions_of_their_own(pod, machine) -> None:
    first = await pod()
    process = await first.start("sh", "-c", ESCAPEES.format(then="sleep 8644"))
    await first.until_logged("up")
    await first.sandbox.kill()

    assert await process.wait() == 137
    assert machine.running("sleep 864") == []


async def test_what_the_main_process_leaves_behind_ends_before_its_exit_is_reported(pod, machine) -> None:
    first = await pod()

    assert (await first.run("sh", "-c", ESCAPEES.format(then="exit 0")))[0] == 0
    assert machine.running("sleep 864") == []


async def test_sigkill_of_the_main_process_takes_its_descendants_along(pod, machine) -> None:
    first = await pod()
    beside = await first.start("sleep", "8645")
    process = await first.start("sh", "-c", ESCAPEES.format(then="sleep 8644"))
    await first.until_logged("up")
    process.signal(signal.SIGKILL)

    assert await process.wait() == 137
    assert machine.running("sleep 864") == [beside.pid]


async def test_the_pid_is_the_one_this_machine_knows(pod) -> None:
    process = await (await pod()).start("sleep", "1000")
    os.kill(process.pid, signal.SIGUSR1)

    assert await process.wait() == 138


async def test_wait_may_be_cancelled_and_called_again(pod) -> None:
    process = await (await pod()).start("sleep", "1000")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.wait()
    process.signal(signal.SIGKILL)

    assert [await process.wait(), await process.wait()] == [137, 137]


async def test_a_killed_sandbox_starts_nothing_and_may_be_killed_again(pod) -> None:
    first = await pod()
    await first.sandbox.kill()
    await first.sandbox.kill()
    with pytest.raises(SandboxError, match="killed"):
        await first.start("true")


async def test_more_memory_than_the_limit_ends_the_process_as_out_of_memory(pod) -> None:
    first = await pod()
    hog = "data = bytearray(200 << 20)\nprint('never', flush=True)\nimport time; time.sleep(60)"
    process = await first.start("python", "-ISc", hog, memory_limit=60 << 20)

    assert await process.wait() == 137
    assert process.oom_killed


async def test_a_process_within_its_limit_is_left_alone(pod) -> None:
    first = await pod()
    process = await first.start("sleep", "0.5", memory_limit=60 << 20)

    assert await process.wait() == 0
    assert not process.oom_killed


async def test_a_probe_connects_to_what_listens_in_the_pod(pod) -> None:
    first = await pod()
    server = "import socket; s = socket.create_server(('', 0)); print(s.getsockname(), flush=True); s.accept()"
    await first.start("python", "-ISc", server)
    port = int((await first.until_logged(")")).strip(" ()\n").split()[1])
    with await first.sandbox.connect(first.sandbox.ip, port, 5) as connection:
        assert connection.getpeername() == (first.sandbox.ip, port)
    with pytest.raises(ConnectionRefusedError):
        (await first.sandbox.connect("localhost", 1, 5)).close()


async def test_a_pod_reaches_what_the_runner_listens_on(pod) -> None:
    first = await pod()
    with await pod.executor.listen(0) as server:
        port = server.getsockname()[1]
        client = f"import socket; socket.create_connection(('{pod.executor.gateway}', {port})).sendall(b'hello')"
        process = await first.start("python", "-ISc", client)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(10):
            connection, _ = await loop.sock_accept(server)
            with connection:
                assert await loop.sock_recv(connection, 100) == b"hello"
        assert await process.wait() == 0


async def test_a_port_in_use_is_an_oserror_that_names_it(pod) -> None:
    with await pod.executor.listen(0) as server:
        port = server.getsockname()[1]
        with pytest.raises(OSError, match=f":{port}: .*in use"):
            await pod.executor.listen(port)


async def test_closing_kills_all_pods_and_removes_the_directory(pod, machine) -> None:
    pods = [await pod(f"tj-node-0-{n}") for n in range(3)]
    processes = [await each.start("sleep", "1000") for each in pods]
    await pod.executor.aclose()

    assert [await process.wait() for process in processes] == [137] * 3
    assert all(machine.ends(process.pid, 0) for process in processes)
    assert not pod.executor.directory.exists()


async def test_a_directory_that_nobody_may_list_is_removed_all_the_same(pod) -> None:
    first = await pod()
    await first.run(
        "sh", "-c", f"mkdir -p {first.root}/a/b && touch {first.root}/a/b/c && chmod 0 {first.root}/a/b {first.root}/a"
    )
    await pod.executor.aclose()

    assert not pod.executor.directory.exists()


async def test_a_sandbox_may_be_killed_after_its_executor_was_closed(pod) -> None:
    first = await pod()
    await pod.executor.aclose()
    await first.sandbox.kill()
    with pytest.raises(SandboxError):
        await pod.executor.create_sandbox(first.sandbox.spec)


async def test_a_signal_that_does_not_exist_harms_nobody(pod) -> None:
    first = await pod()
    process = await first.start("sleep", "1000")
    process.signal(4711)
    process.signal(signal.SIGKILL)

    assert await process.wait() == 137
    assert await first.run("true") == (0, "")
