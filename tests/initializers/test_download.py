"""Many files into a directory: none twice, each whole, none outside."""

import os
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from ktrain.initializers.digest import Digest
from ktrain.initializers.download import Download
from ktrain.initializers.errors import ConfigurationError, Damaged, InitializerError, Interrupted, TargetError
from ktrain.initializers.source import Item, Stream
from ktrain.initializers.transfer import Transfer

from .conftest import QUICK


class Shelf:
    """A source in memory. `cuts` says after how many bytes the next streams of a key break off."""

    def __init__(self, files, version="1", sizes=()):
        self.files = dict(files)
        self.version = version
        self.sizes = dict(sizes)
        self.cuts = {}
        self.opened = []
        self.digests = {}

    def items(self):
        for key, body in self.files.items():
            yield Item(key, key, self.sizes.get(key, len(body)), self.version)

    @contextmanager
    def open(self, item, offset):
        self.opened.append((item.key, offset))
        yield Stream(offset, self._chunks(item, offset), self.digests.get(item.key))

    def _chunks(self, item, offset):
        cut = self.cuts[item.key].pop(0) if self.cuts.get(item.key) else None
        body = self.files[item.key][offset:]
        yield body[:cut]
        if cut is not None:
            raise Interrupted(f"{item.key!r} broke off")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data"


def download(source, target, **more):
    Download(source, target, retry=QUICK, **more).run()


def there(target):
    files = (path for path in target.rglob("*") if path.is_file())
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in files}


def without_state(found):
    return {name: body for name, body in found.items() if not name.startswith(".ktrain/")}


FILES = {"a": b"first", "deep/er/b": b"second", "empty": b""}


def test_a_second_run_fetches_nothing(target):
    download(Shelf(FILES), target)
    again = Shelf(FILES)
    download(again, target)

    assert without_state(there(target)) == FILES
    assert again.opened == []
    assert [name for name in there(target) if name.endswith(".part")] == []


@pytest.mark.parametrize(
    "disturb",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b"other"),
        lambda file: file.write_bytes(b"short"[:3]),
        lambda file: os.utime(file, (1, 1)),
    ],
    ids=["deleted", "overwritten", "cut", "touched"],
)
def test_what_somebody_changed_is_fetched_again(target, disturb):
    download(Shelf(FILES), target)
    disturb(target / "a")
    again = Shelf(FILES)
    download(again, target)

    assert again.opened == [("a", 0)]
    assert (target / "a").read_bytes() == b"first"


def test_a_new_version_is_fetched_anew_and_never_mixed_with_parts_of_the_old(target):
    old, new = Shelf({"a": b"old content"}), Shelf({"a": b"new content"}, version="2")
    old.cuts["a"] = [3, 0, 0, 0]
    with pytest.raises(Interrupted):
        download(old, target)
    download(new, target)

    assert new.opened == [("a", 0)]
    assert (target / "a").read_bytes() == b"new content"


def test_the_next_program_goes_on_where_the_last_one_broke_off(target, lines):
    first, second = Shelf({"a": b"0123456789"}), Shelf({"a": b"0123456789"})
    first.cuts["a"] = [4, 0, 0, 0]
    with pytest.raises(Interrupted):
        download(first, target)
    assert without_state(there(target)) == {}, "no trainer sees half a file"
    download(second, target)

    assert second.opened == [("a", 4)]
    assert (target / "a").read_bytes() == b"0123456789"
    assert [line["resumed_bytes"] for line in lines if line["event"] == "download.started"] == [0, 4]
    assert (lines[-1]["bytes"], lines[-1]["of_bytes"]) == (6, 6)


def test_a_part_that_is_whole_but_was_never_proved_is_proved_first(target):
    source = Shelf({"a": b"0123456789"})
    source.digests["a"] = Digest("sha256", "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882")
    (item,) = source.items()
    transfer = Transfer(source, target / ".ktrain/parts")
    transfer.parts.mkdir(parents=True)
    transfer._part(item).write_bytes(b"01234x6789")

    download(source, target)

    assert source.opened == [("a", 9), ("a", 0)]
    assert (target / "a").read_bytes() == b"0123456789"


def test_a_crash_while_the_list_was_written_costs_that_file_only(target):
    download(Shelf(FILES), target)
    ledger = target / ".ktrain/files.jsonl"
    kept = ledger.read_text().splitlines(keepends=True)
    ledger.write_text(kept[0] + kept[1][: len(kept[1]) // 2])
    again = Shelf(FILES)
    download(again, target)

    assert len(again.opened) == 2


def test_files_that_the_source_has_no_longer_stay_and_are_told(target, lines):
    download(Shelf(FILES), target)
    download(Shelf({"a": b"first"}), target)

    told = [line for line in lines if line["event"] == "download.old_files"]
    assert (target / "deep/er/b").exists()
    assert [(line["files"], line["first"]) for line in told] == [(2, "deep/er/b")]


@pytest.mark.parametrize(
    "key", ["../out", "deep/../../out", "/etc/passwd", "..", ".", "", "link/out", ".ktrain/files.jsonl", "nul\0"]
)
def test_no_name_leads_out_of_the_target(target, key):
    target.mkdir()
    (target / "link").symlink_to(target.parent)
    source = Shelf({"good": b"good", key: b"bad"})

    with pytest.raises(ConfigurationError, match=r"is no name below|outside|is kept"):
        download(source, target)
    assert source.opened == []
    assert not (target.parent / "out").exists()


@pytest.mark.parametrize(
    ("keys", "text"),
    [(["a//b", "a/b"], "'a//b' and 'a/b' are one file"), (["a/b", "a"], "'a' is a file, and 'a/b' wants it as a dir")],
)
def test_names_that_cannot_be_beside_each_other_are_refused(target, keys, text):
    source = Shelf(dict.fromkeys(keys, b"x"))

    with pytest.raises(ConfigurationError, match=text):
        download(source, target)
    assert source.opened == []


def test_a_volume_that_is_too_small_is_told_before_anything_is_fetched(target):
    source = Shelf({"a": b""}, sizes={"a": 1 << 60})

    with pytest.raises(TargetError, match=rf"no space left for .*: {1 << 60} bytes are to come, \d+ are free"):
        download(source, target)
    assert source.opened == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_disk_that_is_full_is_told_as_such_and_not_tried_again(target):
    source = Shelf(FILES)
    transfer = Transfer(source, target / ".ktrain/parts")
    transfer.parts.mkdir(parents=True)
    transfer._part(next(source.items())).symlink_to("/dev/full")

    with pytest.raises(TargetError, match=r"no space left for .*/a; give the volume more room"):
        download(source, target, concurrency=1)
    assert source.opened.count(("a", 0)) == 1


def test_a_target_that_cannot_be_a_directory_is_told(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(TargetError, match=r"cannot write .*/file/data: Not a directory; .*fsGroup"):
        download(Shelf(FILES), tmp_path / "file" / "data")


def test_more_bytes_than_announced_are_no_file(target):
    with pytest.raises(Damaged, match="'a' is damaged: 5 bytes came of 4"):
        download(Shelf({"a": b"first"}, sizes={"a": 4}), target)


def test_a_stream_that_ends_early_is_an_interruption(target):
    with pytest.raises(Interrupted, match="'a' broke off after 5 of 6 bytes"):
        download(Shelf({"a": b"first"}, sizes={"a": 6}), target)


def test_one_file_that_fails_ends_the_others_soon(target):
    class Refusing(Shelf):
        def _chunks(self, item, offset):
            if item.key == "bad":
                raise InitializerError("refused")
            while True:
                yield b"x"

    source = Refusing({"bad": b"", **dict.fromkeys("abc", b"")}, sizes={"a": 1 << 30, "b": 1 << 30, "c": 1 << 30})

    with pytest.raises(InitializerError, match="refused"):
        download(source, target, concurrency=2)
    assert ("c", 0) not in source.opened


def test_progress_is_told_while_files_come(target, lines):
    seen = Event()

    class Slow(Shelf):
        def _chunks(self, item, offset):
            yield b"01"
            # The test's own log tells that the line is there; a limit for when it never comes.
            for _ in range(1000):
                if any(line["event"] == "download.progress" and line["bytes"] == 2 for line in lines):
                    seen.set()
                    break
                Event().wait(0.01)
            yield b"23"

    download(Slow({"a": b"0123"}), target, progress_s=0.01)

    assert seen.is_set()
    assert (lines[-1]["event"], lines[-1]["files"], lines[-1]["bytes"]) == ("download.finished", 1, 4)
