import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from ktrain.framework.env import SystemClock
from ktrain.local.kubelet.probes import Target, verdicts
from ktrain.local.kubelet.spec import Container, Handler, Probe
from ktrain.local.sandbox.executor import ProcessSpec, SandboxSpec
from ktrain.local.sandbox.sim import Act, SimExecutor, SimSandbox


class Loopback(SimSandbox):
    """Simulated processes, real connections: what listens on this machine can be probed."""

    async def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        connection = socket.socket()
        connection.settimeout(0)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, (host, port)), timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection


def target(directory: Path, act: Act | None = None, **container: object) -> Target:
    executor = SimExecutor(directory, lambda sandbox, process: act or Act(runs_s=0))
    spec = SandboxSpec(uid="u", namespace="ns", name="p", hostname="p", root=directory)
    process = ProcessSpec(argv=("main",), env={"A": "1"}, cwd="/", log=directory / "1.log")
    sandbox = Loopback(spec, executor, "127.0.0.1")
    return Target(sandbox, msgspec.convert({"name": "main", **container}, Container), process, SystemClock())


def handler(**fields: object) -> Handler:
    return msgspec.convert(fields, Handler)


def names_in(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


@asynccontextmanager
async def http_server(status: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], requests


@pytest.mark.parametrize(("status", "good"), [("200 OK", True), ("302 Found", True), ("404 Not Found", False)])
async def test_http_answers_from_200_to_399_are_success(tmp_path: Path, status: str, *, good: bool) -> None:
    async with http_server(status) as (port, requests):
        get = {"port": "web", "path": "/ready", "httpHeaders": [{"name": "X-Test", "value": "1"}]}
        web = target(tmp_path, ports=[{"name": "web", "containerPort": port}])
        failure = await web.perform(handler(httpGet=get), 1)

    assert failure is None if good else failure == "HTTP probe failed with statuscode: 404"
    assert requests[0].startswith(b"GET /ready HTTP/1.1\r\n")
    assert b"\r\nX-Test: 1\r\n" in requests[0]


async def test_a_port_that_accepts_is_success_and_one_that_does_not_is_named(tmp_path: Path) -> None:
    async with http_server("200 OK") as (port, _):
        assert await target(tmp_path).perform(handler(tcpSocket={"port": port}), 1) is None
    failure = await target(tmp_path).perform(handler(tcpSocket={"port": port}), 1)

    assert failure == f"cannot connect to 127.0.0.1:{port}: Connection refused"


async def test_an_unknown_port_name_is_a_failure_that_says_so(tmp_path: Path) -> None:
    failure = await target(tmp_path).perform(handler(tcpSocket={"port": "web"}), 1)

    assert failure == "container 'main' has no port named 'web'"


async def test_commands_run_beside_the_container_and_their_output_explains_a_failure(tmp_path: Path) -> None:
    broken = target(tmp_path, Act(runs_s=0, exit_code=3, prints="not yet\n"))

    assert await target(tmp_path).perform(handler(exec={"command": ["true"]}), 1) is None
    assert await broken.perform(handler(exec={"command": ["check", "it"]}), 1) == "check it exited with code 3: not yet"
    assert names_in(tmp_path) == []


async def test_a_command_that_overruns_is_killed(tmp_path: Path) -> None:
    slow = target(tmp_path, Act(runs_s=None, on_term=None))

    assert await slow.perform(handler(exec={"command": ["sleep"]}), 0.01) == "no answer within 0.01 s"
    assert [process.signals for process in slow.sandbox.processes] == [[9]]


async def test_what_cannot_be_done_is_a_failure_not_an_error(tmp_path: Path) -> None:
    missing = target(tmp_path, Act(cannot_start="no such file: 'x'"))

    assert await missing.perform(handler(exec={"command": ["x"]}), 1) == "no such file: 'x'"
    assert "supported" in (await missing.perform(handler(), 1) or "")


def answering(answers: str) -> Callable[[Handler, float], Awaitable[str | None]]:
    script = itertools.chain(answers)

    async def perform(handler: Handler, timeout_s: float) -> str | None:
        answer = next(script, None)
        if answer is None:
            raise EOFError
        return None if answer == "+" else "down"

    return perform


@pytest.mark.parametrize(
    ("answers", "healthy", "success", "failure", "expected"),
    [
        ("+++", True, 1, 3, []),
        ("-----", True, 1, 3, [False]),
        ("--+--+", True, 1, 3, []),
        ("---+", True, 1, 3, [False, True]),
        ("+", False, 1, 3, [True]),
        ("++-++", False, 2, 1, [True, False, True]),
        ("-", None, 1, 1, [False]),
        ("+", None, 1, 1, [True]),
    ],
)
async def test_opinions_change_after_enough_answers_in_a_row(
    clock, answers: str, success: int, failure: int, expected: list[bool], *, healthy: bool | None
) -> None:
    probe = Probe(initial_delay_seconds=5, period_seconds=7, success_threshold=success, failure_threshold=failure)
    found: list[bool] = []

    async def watch() -> None:
        async for verdict in verdicts(probe, answering(answers), clock, healthy=healthy):
            found.append(verdict.healthy)  # noqa: PERF401 -- an error ends the loop, and what came before it counts

    with pytest.raises(EOFError):
        await watch()

    assert found == expected
    assert clock.slept == [5] + [7] * len(answers)
