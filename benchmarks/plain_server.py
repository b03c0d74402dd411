"""
The embedded API server with ktrain's CRDs and nothing else: `python -m benchmarks.plain_server KUBECONFIG [STATE]`.

STATE is a file to keep the objects in.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import anyio

from ktrain.api import assets
from ktrain.cli.main import GC_THRESHOLDS
from ktrain.framework import system_env
from ktrain.local import kubeconfig
from ktrain.local.apiserver.durability.database import Database
from ktrain.local.apiserver.durability.journal import Journal
from ktrain.local.apiserver.front.certificates import self_signed
from ktrain.local.apiserver.front.http import serve_http
from ktrain.local.apiserver.server import ApiServer


async def main(file: str, state: str) -> None:
    """Serve until SIGTERM; print `ready` when the kubeconfig is there."""
    env = system_env()
    gc.set_threshold(*GC_THRESHOLDS)
    journal = Journal(Database(Path(state))) if state else None
    server = ApiServer(env, crds=assets.crds(), journal=journal)
    token, identity = kubeconfig.new_token(), self_signed("127.0.0.1", now=env.clock.now())
    async with server.running(), serve_http(server, token=token, tls=identity) as url:
        kubeconfig.write(Path(file), url, token, identity.certificate)
        print("ready", flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], "".join(sys.argv[2:]))
