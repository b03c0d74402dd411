"""Whose directory a runner sweeps, and what removing one leaves alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ktrain.local.sandbox.helper import scratch

NAME = "ktrain-0123abc_"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def stale() -> Path:
    directory, lock = scratch.make()
    os.close(lock)
    return Path(directory)


def test_a_directory_is_stale_when_its_last_holder_is_gone(temporary) -> None:
    directory, lock = scratch.make()
    inherited = os.dup(lock)
    os.close(lock)
    scratch.sweep(str(temporary))
    assert Path(directory).exists()

    os.close(inherited)
    scratch.sweep(str(temporary))
    assert not Path(directory).exists()


def test_a_directory_without_a_lock_is_nobodys(temporary) -> None:
    (temporary / NAME).mkdir()
    scratch.sweep(str(temporary))

    assert (temporary / NAME).exists()


@pytest.mark.parametrize("name", ["ktrain-results", "ktrain-test-0123abc_", "xktrain-0123abc_"])
def test_a_directory_of_another_name_is_nobodys(temporary, name) -> None:
    stale().rename(temporary / name)
    (temporary / "ktrain-results").mkdir(exist_ok=True)
    scratch.sweep(str(temporary))

    assert (temporary / name).exists()


def test_a_link_is_not_followed_to_a_directory(temporary) -> None:
    stale().rename(temporary / "elsewhere")
    (temporary / NAME).symlink_to("elsewhere")
    scratch.sweep(str(temporary))
    scratch.remove(str(temporary / NAME))

    assert (temporary / "elsewhere" / ".lock").exists()


def test_a_link_to_a_lock_that_is_free_is_no_lock(temporary) -> None:
    (temporary / NAME).mkdir()
    (temporary / "lock").touch()
    (temporary / NAME / ".lock").symlink_to("../lock")
    scratch.sweep(str(temporary))

    assert (temporary / NAME).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_of_another_user_is_not_ours(temporary) -> None:
    directory = stale()
    os.chown(directory, 12345, 12345)
    scratch.sweep(str(temporary))

    assert directory.exists()


def test_links_in_a_directory_go_and_what_they_lead_to_stays(temporary) -> None:
    directory = stale()
    (temporary / "kept").mkdir()
    (temporary / "kept" / "file").touch()
    (directory / "below").mkdir()
    for link in (directory / "link", directory / "below" / "link"):
        link.symlink_to(temporary / "kept")
    scratch.remove(str(directory))

    assert list(temporary.iterdir()) == [temporary / "kept"]
    assert (temporary / "kept" / "file").exists()


def test_directories_that_nobody_may_list_go(temporary) -> None:
    directory = stale()
    (directory / "outer/inner/innermost").mkdir(parents=True)
    for path in ("outer/inner", "outer"):
        (directory / path).chmod(0)
    scratch.remove(str(directory))

    assert list(temporary.iterdir()) == []


def test_links_that_lead_into_a_directory_go_with_it_unless_they_are_anothers_by_now(temporary) -> None:
    directory = stale()
    ours, theirs, never_made = (temporary / name for name in ("ours", "theirs", "never made"))
    scratch.note_links(str(directory), {str(path): f"{directory}/volume" for path in (ours, theirs, never_made)})
    ours.symlink_to(directory / "volume")
    theirs.symlink_to("elsewhere")
    scratch.sweep(str(temporary))

    assert list(temporary.iterdir()) == [theirs]
