"""What calls do without aiohttp's session: a request and its answer on a connection to a server of few words."""

import asyncio
import gzip
from contextlib import asynccontextmanager, suppress

import pytest

from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.errors import TransportError

from ..waiting import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HANG_UP = b"(and hangs up)"
"""At the end of an answer: not sent, but the connection is closed after the answer."""


@asynccontextmanager
async def answering(*answers):
    """A server that gives these answers, one to each request, and hangs up on None; yields a transport and requests."""
    left, requests = list(answers), []

    async def serve(reader, writer):
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
            requests.append(head + await reader.readexactly(length))
            if (answer := left.pop(0)) is None:
                break
            writer.write(answer.removesuffix(HANG_UP))
            if answer.endswith(HANG_UP):
                break
        writer.close()

    async with serving(serve) as http:
        yield http, requests


@asynccontextmanager
async def serving(serve):
    """A server of raw connections; yields a transport to it."""
    server = await asyncio.start_server(serve, "127.0.0.1")
    http = HttpTransport(Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        yield http
    finally:
        await http.aclose()
        server.close()


def kept(http):
    """The connections that answered a call, as far as they are still there."""
    return list(http._connections._current.calls._kept)


def is_of_use(connection):
    return connection.is_connected() and not connection.should_close


async def test_a_request_is_head_and_body_and_its_length():
    async with answering(OK, OK, OK) as (http, requests):
        await http.request("POST", "/a", body=b"{}", headers={"Content-Type": "text/x"})
        await http.request("POST", "/b")
        await http.request("GET", "/c")

    head, body = requests[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert {b"Content-Type: text/x", b"Content-Length: 2", b"Accept-Encoding: identity"} <= set(head.split(b"\r\n"))
    assert body == b"{}"
    assert b"Content-Length: 0" in requests[1]
    assert b"Content-Length" not in requests[2]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    ],
    ids=["after an interim answer", "in chunks"],
)
async def test_an_answer_is_read_whole_and_leaves_the_connection_to_the_next(answer):
    async with answering(answer, OK) as (http, _):
        assert (await http.request("POST", "/")).body == b"ok"
        assert (await http.request("POST", "/")).body == b"ok"


async def test_an_answer_without_a_body_leaves_the_connection_to_the_next():
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", OK) as (
        http,
        _,
    ):
        assert (await http.request("DELETE", "/")).body == b""
        assert (await http.request("HEAD", "/")).body == b""
        assert (await http.request("GET", "/")).body == b"ok"


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_a_read_whose_kept_connection_was_lost_is_sent_again_on_another(method):
    async with answering(OK, None, OK) as (http, requests):
        await http.request("GET", "/")

        assert (await http.request(method, "/second")).status == 200

    assert len(requests) == 3


async def test_a_read_is_sent_again_once():
    async with answering(OK, None, None, OK) as (http, requests):
        await http.request("GET", "/")

        with pytest.raises(TransportError):
            await http.request("GET", "/second")

    assert len(requests) == 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
@pytest.mark.parametrize("earlier", [[OK], []], ids=["kept", "fresh"])
async def test_a_write_whose_connection_was_lost_is_never_sent_again(method, earlier):
    """The server may have done it, and somebody else may have made the object anew since."""
    async with answering(*earlier, None, OK) as (http, requests):
        for _ in earlier:
            await http.request("GET", "/")

        with pytest.raises(TransportError):
            await http.request(method, "/second")

    assert len(requests) == len(earlier) + 1


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_kept_connection_that_is_found_closed_is_not_written_to(method):
    async with answering(OK + HANG_UP, OK) as (http, requests):
        await http.request("GET", "/")
        await until(lambda: not any(map(is_of_use, kept(http))))

        assert (await http.request(method, "/second")).body == b"ok"

    assert len(requests) == 2


async def test_a_server_that_hangs_up_on_a_fresh_connection_is_a_transport_error():
    async with answering(None, OK) as (http, requests):
        with pytest.raises(TransportError):
            await http.request("GET", "/")

    assert len(requests) == 1


UNASKED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"


@pytest.mark.parametrize("unasked", [UNASKED, UNASKED[:-2], b"garbage"], ids=["whole", "in part", "no answer"])
@pytest.mark.parametrize("pause_s", [0, 0.05], ids=["at once", "later"])
async def test_what_nobody_asked_for_answers_no_later_call(unasked, pause_s):
    connections = 0

    async def serve(reader, writer):
        nonlocal connections
        connections += 1
        with suppress(asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                if connections > 1:
                    writer.write(OK)
                elif pause_s:
                    writer.write(OK)
                    await asyncio.sleep(pause_s)
                    writer.write(unasked)
                else:
                    writer.write(OK + unasked)
        writer.close()

    async with serving(serve) as http:
        first = await _body_or_error(http.request("DELETE", "/first"))
        if pause_s:
            await until(lambda: not any(map(is_of_use, kept(http))))
        second = await http.request("DELETE", "/second")

    # What follows in one piece and is no answer at all spoils the answer before it.
    assert first == (b"ok" if pause_s or unasked != b"garbage" else TransportError)
    assert second.body == b"ok"
    assert connections == 2


async def _body_or_error(call):
    try:
        return (await call).body
    except TransportError:
        return TransportError


@pytest.mark.parametrize("answer", [b"220 mail.example\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"])
async def test_half_an_answer_and_what_is_none_are_transport_errors(answer):
    async with answering(answer) as (http, _):
        with pytest.raises(TransportError):
            await http.request("POST", "/", timeout_s=0.3)


async def test_a_redirect_says_where_it_leads():
    async with answering(b"HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\nContent-Length: 0\r\n\r\n") as (
        http,
        _,
    ):
        with pytest.raises(TransportError, match=r"sends us to https://login\.example/"):
            await http.request("GET", "/api")


@pytest.mark.parametrize(
    "header", [{"Accept": "a\r\nX-Remote-User: root"}, {"a": "b\nc: d"}, {"a\rb": "c"}, {"a": "\0"}]
)
async def test_a_line_break_begins_no_header(header):
    async with answering(OK) as (http, requests):
        with pytest.raises(ValueError, match="line break"):
            await http.request("GET", "/", headers=header)

        assert (await http.request("GET", "/")).body == b"ok"

    assert len(requests) == 1


@pytest.mark.parametrize("target", ["/\r\nX: y", "/a b", "/a\tb", "/\0"])
async def test_a_target_ends_where_the_caller_meant_it_to(target):
    async with answering(OK) as (http, requests):
        with pytest.raises(ValueError, match=r"blank|control character"):
            await http.request("GET", target)

    assert not requests


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
async def test_where_a_request_ends_is_not_for_the_caller_to_say(name):
    async with answering(OK) as (http, requests):
        with pytest.raises(ValueError, match="where a request ends"):
            await http.request("POST", "/", headers={name: "1"}, body=b"{}")

    assert not requests


async def test_a_switch_of_protocols_is_an_error_at_once():
    async with answering(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n") as (http, _):
        async with asyncio.timeout(5):
            with pytest.raises(TransportError, match="switches to a protocol"):
                await http.request("GET", "/")


async def test_a_compressed_answer_is_refused_not_unpacked():
    packed = gzip.compress(bytes(1 << 20))
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(packed), packed)
    async with answering(answer, answer) as (http, _):
        with pytest.raises(TransportError, match="compressed"):
            await http.request("GET", "/")
        with pytest.raises(TransportError, match="compressed"):
            async with http.stream("/"):
                pass


async def test_after_its_end_a_transport_connects_no_more():
    async with answering(OK) as (http, requests):
        await http.request("GET", "/")
        await http.aclose()

        with pytest.raises(TransportError, match="closed"):
            await http.request("GET", "/")
        with pytest.raises(TransportError, match="closed"):
            async with http.stream("/"):
                pass

    assert len(requests) == 1
