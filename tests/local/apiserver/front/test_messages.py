"""Requests and answers as bytes (RFC 9112)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.apiserver.front.messages import BadMessage, Chunks, answer_head, chunk, parse_head


def head(*lines: bytes, line: bytes = b"GET /x HTTP/1.1"):
    return parse_head(b"\r\n".join((line, *lines)))


def test_a_request_is_its_method_target_and_headers():
    found = head(b"Host: a", b"X-B:\t c d \t", b"x-b: e", line=b"PATCH /a?b=c%20d HTTP/1.1")

    assert (found.method, found.target) == ("PATCH", "/a?b=c%20d")
    assert found.headers == (("host", "a"), ("x-b", "c d"), ("x-b", "e"))
    assert (found.length, found.keep_alive, found.upgrade, found.continues) == (0, True, False, False)


def test_bytes_that_are_no_text_survive_in_headers():
    (found,) = head(b"Impersonate-User: \xff\xc3\xa9").headers

    assert found[1].encode("utf-8", "surrogateescape") == b"\xff\xc3\xa9"


@pytest.mark.parametrize(
    ("lines", "length"),
    [((), 0), ((b"Content-Length: 12",), 12), ((b"Content-Length: 0",), 0), ((b"Transfer-Encoding: Chunked",), -1)],
)
def test_a_body_has_a_length_or_comes_in_chunks(lines, length):
    assert head(*lines).length == length


def test_connections_stay_unless_somebody_wants_them_closed():
    assert not head(b"Connection: Close").keep_alive
    assert not head(b"Connection: x, close").keep_alive
    assert not head(line=b"GET / HTTP/1.0").keep_alive
    assert head(b"Connection: keep-alive").keep_alive


def test_only_websockets_are_worth_another_protocol():
    assert head(b"Connection: keep-alive, Upgrade", b"Upgrade: WebSocket").upgrade
    assert not head(b"Upgrade: websocket").upgrade
    assert not head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c").upgrade


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET /",
        b"GET / HTTP/2.0",
        b"GET  / HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET /\xc3\xa9 HTTP/1.1",
        b"G(T / HTTP/1.1",
        b"GET / HTTP/1.1\r\nno colon",
        b"GET / HTTP/1.1\r\nblank : x",
        b"GET / HTTP/1.1\r\n: x",
        b"GET / HTTP/1.1\r\nA: b\r\n folded",
        b"GET / HTTP/1.1\r\nA: b\nB: c",
        b"GET / HTTP/1.1\r\nA: \x00",
        b"GET / HTTP/1.1\r\nContent-Length: +1",
        b"GET / HTTP/1.1\r\nContent-Length: 1e3",
        b"GET / HTTP/1.1\r\nContent-Length: \xd9\xa3",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip",
    ],
)
def test_what_two_readers_could_understand_differently_is_no_request(data):
    with pytest.raises(BadMessage):
        parse_head(data)


@given(
    parts=st.lists(st.binary(min_size=1, max_size=50), max_size=5), cut=st.integers(1, 9), rest=st.binary(max_size=9)
)
def test_chunks_come_together_however_they_are_cut(parts, cut, rest):
    data = b"".join(map(chunk, parts)) + b"0\r\nTrailer: x\r\n\r\n" + rest
    chunks, buffer, complete = Chunks(), bytearray(), False
    for start in range(0, len(data), cut):
        buffer += data[start : start + cut]
        complete = complete or chunks.feed(buffer)

    assert complete
    assert chunks.body == b"".join(parts)
    assert bytes(buffer) == rest


@pytest.mark.parametrize("data", [b"x\r\n", b"-1\r\n", b"\r\n", b"1\r\nabc", b"1" * 5000, b"fffffffff\r\n"])
def test_what_is_not_chunked_as_said_is_refused(data):
    with pytest.raises(BadMessage):
        Chunks().feed(bytearray(data))


def test_an_answer_cannot_be_split_by_what_is_in_its_headers():
    made = answer_head(200, [("warning", "a\r\nSet-Cookie: b\n\0")], date="D", length=3, keep_alive=False)

    assert made == (
        b"HTTP/1.1 200 OK\r\ndate: D\r\nwarning: a  Set-Cookie: b  \r\ncontent-length: 3\r\nconnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(("status", "has_length"), [(200, True), (404, True), (204, False), (304, False)])
def test_answers_without_a_body_by_their_status_have_no_length(status, has_length):
    made = answer_head(status, [], date="D", length=0, keep_alive=True)

    assert (b"content-length: 0" in made) is has_length


def test_many_small_chunks_are_taken_off_at_once():
    data = b"1\r\nx\r\n" * 500_000 + b"0\r\n\r\nrest"
    chunks, buffer, begun = Chunks(), bytearray(data), time.monotonic()

    assert chunks.feed(buffer)
    assert (chunks.body, bytes(buffer)) == (b"x" * 500_000, b"rest")
    assert time.monotonic() - begun < 5


def test_trailers_are_no_longer_than_a_head():
    line = b"a: " + b"x" * 1000 + b"\r\n"
    chunks = Chunks()
    assert not chunks.feed(bytearray(b"0\r\n" + line * 1000))

    with pytest.raises(BadMessage, match="trailers too large"):
        chunks.feed(bytearray(line * 50))
