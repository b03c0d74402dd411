"""
A server's certificate, made by a program of its own: `python -m ktrain.local.apiserver.front.certify HOST NOW SECONDS`.

Loading cryptography takes 9 MB for good, a fifth of an empty server, to make one certificate. A process that ends takes
nothing.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta

import anyio

from ktrain.local.apiserver.front.certificates import LIFETIME, ServerIdentity, self_signed


async def make_identity(host: str, *, now: datetime, lifetime: timedelta = LIFETIME) -> ServerIdentity:
    """
    Do what `certificates.self_signed` does, elsewhere.

    Raises:
        OSError: No process could be started, or it failed.
    """
    command = (sys.executable, "-m", __name__, host, now.isoformat(), str(lifetime.total_seconds()))
    try:
        # In a session of its own: Ctrl-C is sent to all of a terminal's foreground, and how to end is for us to say.
        done = await anyio.run_process(command, stderr=None, start_new_session=True)
    except subprocess.CalledProcessError as error:
        raise OSError(f"making a certificate failed with exit code {error.returncode}") from error
    return ServerIdentity.of(done.stdout)


def main(host: str, now: str, seconds: str) -> None:
    """Make one and write it to standard output."""
    made = self_signed(host, now=datetime.fromisoformat(now), lifetime=timedelta(seconds=float(seconds)))
    sys.stdout.buffer.write(made.pem)


if __name__ == "__main__":
    main(*sys.argv[1:])
