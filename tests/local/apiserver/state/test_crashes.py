"""
SIGKILL at any moment: what was acknowledged is there, under the version that was acknowledged.

A few rounds here; `KTRAIN_CRASH_ROUNDS=50` for many.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("KTRAIN_CRASH_ROUNDS", "3"))
PROGRAM = Path(__file__).with_name("crashing.py")


@pytest.mark.e2e
async def test_every_acknowledged_write_survives_a_kill(file, life, api_of):
    chance = random.Random(5)
    acknowledged: dict[str, tuple[str, str]] = {}
    newest = 0
    for _ in range(ROUNDS):
        acknowledged |= crash(file, chance.uniform(0.0, 0.5))
        versions = [int(version) for version, _ in acknowledged.values() if version != "gone"]
        assert versions
        async with life() as server:
            api = api_of(server)
            listed = (await api.send("GET", api.path("configmaps"))).body
        stored = {item["metadata"]["name"]: item["metadata"] for item in listed["items"]}
        for name, (version, uid) in acknowledged.items():
            if version == "gone":
                assert name not in stored
            elif name in stored:
                found = stored[name]
                # A later change may have been stored and its acknowledgement killed; never an earlier one be there.
                assert int(found["resourceVersion"]) >= int(version)
                assert found["uid"] == uid
            else:
                # Only a deletion on its way may have gone further than what was acknowledged.
                assert deletion_follows(name), f"{name} was acknowledged at {version} and is lost"
        assert int(listed["metadata"]["resourceVersion"]) > max(newest, *versions)
        newest = int(listed["metadata"]["resourceVersion"])


def crash(file: Path, after_s: float) -> dict[str, tuple[str, str]]:
    """Run writers, kill them some time after the first acknowledgement; returns the last one of each object."""
    with subprocess.Popen([sys.executable, str(PROGRAM), str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(after_s)
        process.kill()
        rest = process.stdout.read()
    acknowledged: dict[str, tuple[str, str]] = {}
    for line in (first + rest).splitlines(keepends=True):
        if line.endswith("\n"):
            name, version, uid = line[:-1].split(" ")
            acknowledged[name] = (version, uid)
    return acknowledged


def deletion_follows(name: str) -> bool:
    """Whether the writers delete this object: every third."""
    return (int(name.rpartition("-")[2]) + 1) % 3 == 0
