import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ktrain.api.meta import Key
from ktrain.framework.env import Env
from ktrain.local.apiserver.reading.logs import LogOptions, LogUnavailable
from ktrain.local.kubelet.logs import SAMPLE_S, AttemptLog, LogStore, tail

POD = Key("ns", "p")
T0 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(clock) -> LogStore:
    return LogStore(Env(clock))


async def collect(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def read(store: LogStore, **options: object) -> bytes:
    return await collect(await store.open("ns", "p", "main", LogOptions(**options)))


def begin(store: LogStore, path: Path, text: str = "") -> AttemptLog:
    path.write_text(text)
    return store.begin(POD, "main", path)


@pytest.mark.parametrize(
    ("lines", "expected"), [(0, ""), (1, "c\n"), (2, "b\nc\n"), (3, "a\nb\nc\n"), (9, "a\nb\nc\n")]
)
async def test_the_last_lines_are_found(store: LogStore, tmp_path: Path, lines: int, expected: str) -> None:
    begin(store, tmp_path / "1.log", "a\nb\nc\n")

    assert await read(store, tail_lines=lines) == expected.encode()


async def test_the_last_line_counts_without_its_newline_and_long_logs_are_searched_in_blocks(
    store: LogStore, tmp_path: Path
) -> None:
    begin(store, tmp_path / "1.log", "x" * 150_000 + "\n" + "y" * 70_000 + "\nend")

    assert await read(store, tail_lines=2) == b"y" * 70_000 + b"\nend"


async def test_a_limit_cuts_anywhere(store: LogStore, tmp_path: Path) -> None:
    begin(store, tmp_path / "1.log", "abc\n" * 50_000)

    assert len(await read(store, limit_bytes=65_537)) == 65_537
    assert await read(store, limit_bytes=2, tail_lines=1) == b"ab"


async def test_the_attempt_before_the_current_one_can_be_read(store: LogStore, tmp_path: Path) -> None:
    begin(store, tmp_path / "1.log", "first")
    with pytest.raises(LogUnavailable, match='previous terminated container "main" in pod "p" not found'):
        await read(store, previous=True)
    begin(store, tmp_path / "2.log", "second")
    begin(store, tmp_path / "3.log", "third")

    assert await read(store, previous=True) == b"second"
    assert await read(store) == b"third"


async def test_a_container_that_has_not_started_has_no_log(store: LogStore) -> None:
    with pytest.raises(LogUnavailable, match='container "main" in pod "p" is waiting to start: ContainerCreating'):
        await read(store)


async def test_following_ends_with_the_container_and_misses_nothing(tmp_path: Path) -> None:
    store = LogStore(Env())
    attempt = begin(store, tmp_path / "1.log", "one\n")
    reading = asyncio.ensure_future(read(store, follow=True))
    chunks = await store.open("ns", "p", "main", LogOptions(follow=True))

    assert await anext(chunks) == b"one\n"
    with attempt.path.open("a") as file:
        file.write("two\n")
    assert await anext(chunks) == b"two\n"
    with attempt.path.open("a") as file:
        file.write("last words")
    store.end(attempt)
    assert await collect(chunks) == b"last words"
    assert await reading == b"one\ntwo\nlast words"


async def test_who_follows_a_pod_that_is_deleted_reads_to_the_end(tmp_path: Path) -> None:
    store = LogStore(Env())
    attempt = begin(store, tmp_path / "1.log", "one\n")
    chunks = await store.open("ns", "p", "main", LogOptions(follow=True))
    await anext(chunks)
    store.forget(POD)
    attempt.path.unlink()

    assert await collect(chunks) == b""
    with pytest.raises(LogUnavailable):
        await read(store)


async def test_lines_carry_the_time_at_which_they_were_seen_first(store: LogStore, clock, tmp_path: Path) -> None:
    attempt = begin(store, tmp_path / "1.log", "one\n")
    attempt.observe(T0)
    attempt.path.write_text("one\ntwo\n")
    attempt.observe(T0 + timedelta(seconds=1))
    attempt.path.write_text("one\ntwo\nthree")
    clock.now = lambda: T0 + timedelta(seconds=2)

    assert (await read(store, timestamps=True)).decode().splitlines() == [
        "2026-01-01T00:00:00.000000Z one",
        "2026-01-01T00:00:01.000000Z two",
        "2026-01-01T00:00:02.000000Z three",
    ]


async def test_reading_since_a_time_leaves_out_what_was_there_before(store: LogStore, clock, tmp_path: Path) -> None:
    attempt = begin(store, tmp_path / "1.log", "old\n")
    attempt.observe(T0)
    attempt.path.write_text("old\nnew\n")
    attempt.observe(T0 + timedelta(seconds=60))
    clock.now = lambda: T0 + timedelta(seconds=70)

    assert await read(store, since_seconds=30) == b"new\n"
    assert await read(store, since_seconds=3600) == b"old\nnew\n"
    assert await read(store, since_time="2026-01-01T00:00:30Z") == b"new\n"


def test_the_samples_stay_few_and_recent_ones_exact(tmp_path: Path) -> None:
    attempt = AttemptLog(tmp_path / "1.log")
    attempt.path.touch()
    for second in range(1, 10_000):
        os.truncate(attempt.path, second)
        attempt.observe(T0 + timedelta(seconds=second))

    assert len(attempt.sizes) <= 4096
    assert attempt.written_at(9_990) == T0 + timedelta(seconds=9_990)
    assert attempt.sizes == sorted(attempt.sizes)


async def test_a_log_gives_its_beginning_back_and_keeps_its_end(tmp_path: Path, clock) -> None:
    store = LogStore(Env(clock), limit_bytes=64 * 1024)
    attempt = begin(store, tmp_path / "1.log", "".join(f"{number:07d}\n" for number in range(50_000)))
    looked = asyncio.Event()

    async def sleep(seconds: float) -> None:
        assert seconds == SAMPLE_S
        if attempt.start:
            looked.set()
            await asyncio.Event().wait()

    clock.sleep = sleep
    watching = asyncio.ensure_future(store.run())
    await asyncio.wait_for(looked.wait(), 5)
    watching.cancel()
    found = await read(store)

    assert attempt.path.stat().st_blocks * 512 <= 64 * 1024
    assert found.endswith(b"0049998\n0049999\n")
    assert len(found) == 400_000 - attempt.start


def test_the_end_of_a_file_is_bounded_by_bytes_and_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a\nbb\nccc\n")

    assert tail(tmp_path / "log", size=100, lines=2) == b"bb\nccc\n"
    assert tail(tmp_path / "log", size=5) == b"\nccc\n"
    assert tail(tmp_path / "none", size=5) == b""
