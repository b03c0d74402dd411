"""The file with the token: whole, and its owner's alone."""

import stat

import pytest
import yaml

from ktrain.local import kubeconfig


def test_only_its_owner_can_read_it_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)

    kubeconfig.write(path, "https://127.0.0.1:1", "secret", b"pem")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["users"][0]["user"]["token"] == "secret"
    assert list(tmp_path.iterdir()) == [path]


def test_the_token_goes_nowhere_else_whatever_lies_in_the_directory(tmp_path, monkeypatch):
    # The draft's name was once made from the process id, so it could be laid out as a link to elsewhere.
    elsewhere = tmp_path / "elsewhere"
    for number in range(2):
        (tmp_path / f".kubeconfig.{number}").symlink_to(elsewhere)
    monkeypatch.setattr("os.getpid", lambda: 1)

    kubeconfig.write(tmp_path / "kubeconfig", "https://127.0.0.1:1", "secret", b"pem")

    assert not elsewhere.exists()


def test_a_failure_leaves_no_draft(tmp_path):
    path = tmp_path / "kubeconfig"
    path.mkdir()

    with pytest.raises(OSError, match="directory"):
        kubeconfig.write(path, "https://127.0.0.1:1", "secret", b"pem")

    assert list(tmp_path.iterdir()) == [path]
