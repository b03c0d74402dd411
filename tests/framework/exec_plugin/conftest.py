"""Plugins that are programs in sh."""

import pytest


@pytest.fixture
def script(tmp_path):
    """Write a plugin in sh; each run leaves a line in `runs`."""

    def write(text):
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\nset -e\necho run >> {tmp_path}/runs\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def runs(tmp_path):
    return lambda: len((tmp_path / "runs").read_text().splitlines()) if (tmp_path / "runs").exists() else 0
