"""`pods/exec` and `pods/attach` through the API server, in process: real processes, the protocol spoken by hand."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from ktrain.local.apiserver.requests import Request

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

UNTIL_IT_IS_GONE = "while ps ax | grep -q '[s]leep 54321'; do sleep 0.05; done; echo gone"


class Client:
    """The far end of an upgraded connection."""

    def __init__(self):
        self._to_server = asyncio.Queue()
        self._to_client = asyncio.Queue()

    # What the server sees

    async def receive(self):
        return await self._to_server.get()

    async def send(self, data):
        self._to_client.put_nowait(data)

    async def aclose(self):
        self._to_client.put_nowait(None)

    # What the test does

    def say(self, channel, data):
        self._to_server.put_nowait(bytes([channel]) + data)

    def leave(self):
        self._to_server.put_nowait(None)

    async def hear(self, channel=STDOUT):
        """The next message of a channel that says something."""
        async with asyncio.timeout(10):
            while True:
                message = await self._to_client.get()
                assert message is not None, "the server has closed the connection"
                if message[0] == channel and len(message) > 1:
                    return message[1:]

    async def hear_all(self):
        """Everything to the end, by channel; the status as an object."""
        heard = {STDOUT: b"", STDERR: b"", ERROR: b""}
        async with asyncio.timeout(10):
            while (message := await self._to_client.get()) is not None:
                heard[message[0]] += message[1:]
        return heard[STDOUT].decode(), heard[STDERR].decode(), json.loads(heard[ERROR])


def request(
    path, *command, flags="stdout", protocol="v5.channel.k8s.io", upgrade="websocket", method="GET", container=""
):
    query = [
        *([("container", container)] if container else []),
        *(("command", word) for word in command),
        *((flag, "true") for flag in flags.split()),
    ]
    headers = {"upgrade": upgrade, "sec-websocket-protocol": protocol}
    return Request(method, f"/api/v1/namespaces/default/pods/{path}", query, headers)


@asynccontextmanager
async def connected(server, path, *command, **rest):
    answer = await server.handle(request(path, *command, **rest))
    assert answer.status == 101, answer.body
    client = Client()
    serving = asyncio.create_task(answer.upgrade.serve(client))
    try:
        yield client
    finally:
        client.leave()
        async with asyncio.timeout(10):
            await serving


def message_of(answer):
    return json.loads(answer.body)["message"]


@pytest.mark.e2e
async def test_output_errors_and_the_exit_code_come_back_each_on_its_channel(real):
    async with real() as world:
        await world.create("p", ["sleep", "1000"], container={"env": [{"name": "WHO", "value": "me"}]})
        await world.running("p")
        command = ("sh", "-c", "echo $WHO; echo no >&2; exit 3")
        async with connected(world.server, "p/exec", *command, flags="stdout stderr") as client:
            out, err, status = await client.hear_all()

        assert (out, err) == ("me\n", "no\n")
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


@pytest.mark.e2e
async def test_input_is_passed_on_and_its_end_too(real):
    async with real() as world:
        await world.create("p", ["sleep", "1000"])
        await world.running("p")
        async with connected(world.server, "p/exec", "cat", flags="stdin stdout") as client:
            client.say(STDIN, b"one\n")
            first = await client.hear()
            client.say(STDIN, b"x" * 300_000)
            client.say(CLOSE, bytes([STDIN]))
            rest, _, status = await client.hear_all()

        assert first == b"one\n"
        assert len(rest) == 300_000
        assert status["status"] == "Success"


@pytest.mark.e2e
async def test_a_terminal_has_the_size_that_the_client_says(real):
    async with real() as world:
        await world.create("p", ["sleep", "1000"])
        await world.running("p")
        async with connected(world.server, "p/exec", "sh", flags="stdin stdout tty") as client:
            client.say(RESIZE, json.dumps({"Width": 101, "Height": 37}).encode())
            client.say(RESIZE, b"nonsense")
            client.say(STDIN, b"stty size; exit 5\n")
            out, _, status = await client.hear_all()

        assert "37 101" in out
        assert status["details"]["causes"][0]["message"] == "5"


@pytest.mark.e2e
async def test_a_command_dies_when_its_client_goes_away(real):
    async with real() as world:
        await world.create("p", ["sleep", "1000"])
        await world.running("p")
        async with connected(world.server, "p/exec", "sh", "-c", "echo started; sleep 54321; true") as client:
            await client.hear()
        async with connected(world.server, "p/exec", "sh", "-c", UNTIL_IT_IS_GONE) as again:
            out, _, _ = await again.hear_all()

        assert out == "gone\n"


@pytest.mark.e2e
async def test_who_attaches_reads_what_comes_and_writes_to_the_main_process(real):
    async with real() as world:
        script = "echo before; while read line; do echo got $line; done; echo end"
        await world.create("p", ["sh", "-c", script], container={"stdin": True, "stdinOnce": True})
        await world.running("p")
        async with connected(world.server, "p/attach", flags="stdin stdout stderr") as client:
            client.say(STDIN, b"a\n")
            first = await client.hear()
            client.say(CLOSE, bytes([STDIN]))
            out, _, status = await client.hear_all()
        pod = await world.end("p")

        assert first == b"got a\n"
        assert out == "end\n"
        assert status["status"] == "Success"
        assert pod.status.phase == "Succeeded"


@pytest.mark.e2e
async def test_a_containers_terminal_is_in_its_log_and_can_be_attached_to(real):
    async with real() as world:
        await world.create("p", ["sh"], container={"stdin": True, "tty": True})
        await world.running("p")
        async with connected(world.server, "p/attach", flags="stdin stdout tty") as client:
            client.say(STDIN, b"test -t 0 && echo terminal; exit\n")
            heard = b""
            while b"\nterminal" not in heard.replace(b"\r", b""):
                heard += await client.hear()
        pod = await world.end("p")

        assert pod.status.phase == "Succeeded"
        assert "\nterminal" in b"".join([c async for c in await world.log("p")]).decode().replace("\r", "")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("program", "why", "code"),
    [
        ("no-such-program", "executable file not found in $PATH", 127),
        ("/no/such", "stat /no/such: no such file or directory", 127),
        ("/etc/passwd", "permission denied", 126),
    ],
)
async def test_a_program_that_cannot_be_run_ends_as_a_shell_tells_it(real, program, why, code):
    async with real() as world:
        await world.create("p", ["sleep", "1000"])
        await world.running("p")
        async with connected(world.server, "p/exec", program, flags="stdout stderr") as client:
            _, err, status = await client.hear_all()

        assert err == f'exec: "{program}": {why}\n'
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": str(code)}]


@pytest.mark.e2e
async def test_a_container_that_does_not_run_is_told(real):
    async with real() as world:
        await world.run("done", ["true"])
        async with connected(world.server, "done/exec", "true") as client:
            _, _, ended = await client.hear_all()

        assert ended["message"].startswith('container not found ("main")')


async def test_what_cannot_be_served_is_refused_before_anything_starts(real):
    async with real() as world:
        await world.create("p", ["sleep", "1000"])
        await world.running("p")
        asked = [
            (request("none/exec", "ls"), 404, 'pods "none" not found'),
            (request("p/exec", "ls", flags=""), 400, "you must specify at least 1 of stdin, stdout, stderr"),
            (request("p/exec"), 400, "you must specify at least one command for the container"),
            (
                request("p/exec", "ls", upgrade="SPDY/3.1", method="POST"),
                400,
                "unable to upgrade: WebSockets are served here, SPDY is not; use kubectl 1.30 or newer",
            ),
        ]
        for one, code, text in asked:
            answer = await world.server.handle(one)
            assert (answer.status, message_of(answer)) == (code, text)
        old = await world.server.handle(request("p/exec", "ls", protocol="channel.k8s.io"))
        assert "none of the protocols ['channel.k8s.io']" in message_of(old)
