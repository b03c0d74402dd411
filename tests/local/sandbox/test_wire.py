from __future__ import annotations

import os
import socket

from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.sandbox import wire

json_values = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
frames = st.lists(st.dictionaries(st.text(max_size=5), json_values, max_size=3), max_size=5)


@given(frames, st.integers(1, 50))
def test_frames_arrive_whole_however_they_are_cut(sent, size) -> None:
    data = b"".join(wire.encode(frame) for frame in sent)
    ours, theirs = socket.socketpair()
    reader, received = wire.Reader(), []
    with ours, theirs:
        for start in range(0, len(data), size):
            ours.sendall(data[start : start + size])
            received += reader.receive(theirs) or []

    assert [frame for frame, _ in received] == sent


def test_descriptors_arrive_with_their_own_frames() -> None:
    ours, theirs = socket.socketpair()
    reads, writes = zip(os.pipe(), os.pipe(), strict=True)
    with ours, theirs:
        wire.send(ours, {"n": 0})
        wire.send(ours, {"n": 1}, (writes[0],))
        wire.send(ours, {"n": 2}, (writes[1],))
        reader, received = wire.Reader(), []
        while len(received) < 3:
            received += reader.receive(theirs)
    assert [len(fds) for _, fds in received] == [0, 1, 1]
    for number, (read_end, (_, fds)) in enumerate(zip(reads, received[1:], strict=True)):
        os.write(fds[0], b"%d" % number)
        assert os.read(read_end, 10) == b"%d" % number
        assert not os.get_inheritable(fds[0])
    for fd in (*reads, *writes, received[1][1][0], received[2][1][0]):
        os.close(fd)


def test_the_end_is_told_from_silence() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        assert wire.Reader().receive(theirs) is None
