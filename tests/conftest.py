import os
import subprocess
import sys
import urllib.request

import pytest
from hypothesis import settings

from .waiting import eventually

pytest_plugins = ["ktrain.testing.plugin", "pytester"]

# No deadline for an example: what is slow on a busy machine is measured by benchmarks, not by tests. The same examples
# in every run, so that nobody's change is refused for what it did not do; `--hypothesis-profile=search` takes others.
settings.register_profile("ktrain", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("ktrain")


@pytest.fixture(scope="session")
def moto(tmp_path_factory, unused_tcp_port_factory):
    """The address of an S3 server: moto's, in a process of its own, since inside this one it would replace boto3."""
    port = unused_tcp_port_factory()
    log = tmp_path_factory.mktemp("moto") / "log"
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    # Short pages, so that a few objects make more than one.
    environment = {**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": "3"}
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)

    def answers():
        assert process.poll() is None, log.read_text()
        urllib.request.urlopen(f"{url}/moto-api/").close()
        return True

    try:
        eventually(answers, despite=OSError, within_s=60)
        yield url
    finally:
        process.kill()
        process.wait()
