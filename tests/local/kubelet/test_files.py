import os
import stat
from pathlib import Path

import pytest

from ktrain.local.kubelet.files import (
    File,
    VolumeError,
    check_host_path,
    escapes,
    make_directory,
    prepare_sub_path,
    write_payload,
)


def shown(directory: Path) -> dict[str, str]:
    """What a program sees: visible names only."""
    found = {}
    for entry in sorted(directory.iterdir()):
        if not entry.name.startswith(".."):
            for path in [entry, *entry.rglob("*")]:
                if path.is_file():
                    found[str(path.relative_to(directory))] = path.read_text()
    return found


def test_files_appear_through_one_link_with_their_modes(tmp_path: Path) -> None:
    write_payload(tmp_path, {"a": File(b"1", 0o400), "sub/b": File(b"2", 0o644)})

    assert shown(tmp_path) == {"a": "1", "sub/b": "2"}
    assert str((tmp_path / "a").readlink()) == "..data/a"
    assert str((tmp_path / "sub").readlink()) == "..data/sub"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o400


def test_a_change_swaps_everything_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_payload(tmp_path, {"a": File(b"1", 0o644), "old": File(b"x", 0o644)})
    reader = (tmp_path / "..data").resolve()

    assert write_payload(tmp_path, {"a": File(b"2", 0o644), "new": File(b"y", 0o644)})
    assert shown(tmp_path) == {"a": "2", "new": "y"}
    assert not reader.exists()
    assert len([entry for entry in tmp_path.iterdir() if entry.name.startswith("..")]) == 2


def test_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    payload = {"a": File(b"1", 0o600)}
    write_payload(tmp_path, payload)
    before = (tmp_path / "..data").readlink()

    assert not write_payload(tmp_path, payload)
    assert (tmp_path / "..data").readlink() == before
    assert write_payload(tmp_path, {"a": File(b"1", 0o644)})


def test_an_optional_source_that_is_missing_is_an_empty_directory(tmp_path: Path) -> None:
    write_payload(tmp_path / "v", {})

    assert shown(tmp_path / "v") == {}
    assert not write_payload(tmp_path / "v", {})


def test_the_disk_saying_no_is_told_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(VolumeError, match=r"cannot write .*file/v: Not a directory"):
        write_payload(tmp_path / "file" / "v", {"a": File(b"", 0o644)})


def test_pods_of_any_user_may_write_to_an_empty_dir(tmp_path: Path) -> None:
    make_directory(tmp_path / "v", mode=0o777, group=os.getgid())

    assert stat.S_IMODE((tmp_path / "v").stat().st_mode) & 0o777 == 0o777


@pytest.mark.parametrize(
    ("type_", "name", "good"),
    [
        ("", "directory", True),
        ("", "none", False),
        ("Directory", "directory", True),
        ("Directory", "file", False),
        ("File", "file", True),
        ("File", "none", False),
        ("DirectoryOrCreate", "new/directory", True),
        ("FileOrCreate", "new-file", True),
        ("Socket", "file", False),
        ("Nonsense", "file", False),
    ],
)
def test_host_paths_are_held_to_their_type(tmp_path: Path, type_: str, name: str, *, good: bool) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()

    if good:
        check_host_path(tmp_path / name, type_)
        assert (tmp_path / name).exists()
    else:
        with pytest.raises(VolumeError, match=name if type_ != "Nonsense" else "Nonsense"):
            check_host_path(tmp_path / name, type_)


def test_a_sub_path_is_made_as_a_directory_or_found(tmp_path: Path) -> None:
    write_payload(tmp_path, {"a": File(b"1", 0o644)})

    assert prepare_sub_path(tmp_path, "a").read_text() == "1"
    assert stat.S_IMODE(prepare_sub_path(tmp_path, "x/y").stat().st_mode) == 0o750


@pytest.mark.parametrize("sub_path", ["../x", "a/../../x", "/etc", "link"])
def test_a_sub_path_cannot_leave_its_volume(tmp_path: Path, sub_path: str) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "link").symlink_to("/etc")

    with pytest.raises(VolumeError, match="subPath"):
        prepare_sub_path(volume, sub_path)


def test_nothing_is_made_where_a_sub_path_must_not_lead(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "link").symlink_to(tmp_path / "outside")

    with pytest.raises(VolumeError, match="leads out of its volume"):
        prepare_sub_path(tmp_path / "volume", "link/new")

    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_inside_a_volume_may_be_a_sub_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert prepare_sub_path(tmp_path, "link/new") == tmp_path / "real" / "new"


@pytest.mark.parametrize(("path", "bad"), [("a", False), ("a/b", False), ("a..b", False), ("..", True), ("", True)])
def test_paths_that_leave_are_recognised(path: str, *, bad: bool) -> None:
    assert escapes(path) is bad
