"""Logs that a server before this one has left."""

import pytest

from ktrain.api.meta import Key
from ktrain.framework.env import Env
from ktrain.local.apiserver.reading.logs import LogOptions, LogUnavailable
from ktrain.local.kubelet import logs as logs_module
from ktrain.local.kubelet.kept_logs import log_name, take_over
from ktrain.local.kubelet.logs import LogStore

POD = Key("ns", "p")


@pytest.fixture
def store(clock):
    return LogStore(Env(clock))


async def read(store, container="main", **options):
    return b"".join([c async for c in await store.open("ns", "p", container, LogOptions(**options))])


def leave(directory, uid, container, number, text):
    path = directory / uid / log_name(container, number)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    return path


async def test_the_last_two_attempts_of_each_container_can_be_read_and_have_ended(store, tmp_path):
    for number in (8, 9, 10):
        leave(tmp_path, "u", "main", number, f"{number}\n".encode())
    leave(tmp_path, "u", "main-2", 1, b"other\n")
    await take_over(store, tmp_path, {"u": POD})

    assert await read(store, follow=True) == b"10\n"
    assert await read(store, previous=True) == b"9\n"
    assert await read(store, "main-2") == b"other\n"
    with pytest.raises(LogUnavailable):
        await read(store, "none")


async def test_logs_of_pods_that_are_gone_are_removed(store, tmp_path):
    leave(tmp_path, "u", "main", 1, b"here\n")
    leave(tmp_path, "gone", "main", 1, b"gone\n")
    await take_over(store, tmp_path, {"u": POD})

    assert [path.name for path in tmp_path.iterdir()] == ["u"]


async def test_the_next_attempt_makes_the_last_one_the_previous(store, tmp_path):
    leave(tmp_path, "u", "main", 1, b"one\n")
    last = leave(tmp_path, "u", "main", 2, b"two\n")
    await take_over(store, tmp_path, {"u": POD})
    store.begin(POD, "main", leave(tmp_path, "u", "main", 3, b"three\n"))

    assert (await read(store), await read(store, previous=True)) == (b"three\n", b"two\n")

    # Begun, but its server died before its status was written: the number comes again.
    await take_over(store, tmp_path, {"u": POD})
    store.begin(POD, "main", tmp_path / "u" / log_name("main", 3))

    assert await read(store, previous=True) == last.read_bytes()


async def test_a_log_whose_beginning_was_given_back_begins_behind_the_hole(store, tmp_path):
    path = leave(tmp_path, "u", "main", 1, b"x" * (1 << 20) + b"end\n")
    if not logs_module._give_back(path, 1 << 20):
        pytest.skip("this file system makes no holes")
    await take_over(store, tmp_path, {"u": POD})

    assert await read(store) == b"end\n"
