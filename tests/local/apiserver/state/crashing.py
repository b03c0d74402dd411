"""A server with many writers, to be killed: `python crashing.py FILE` prints what was acknowledged, line by line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from ktrain.framework.env import system_env
from ktrain.local.apiserver.durability.database import Database
from ktrain.local.apiserver.durability.journal import Journal
from ktrain.local.apiserver.server import ApiServer

WRITERS = 16
MAPS = "/api/v1/namespaces/default/configmaps"


async def main(file: str) -> None:
    server = ApiServer(system_env(), journal=Journal(Database(Path(file))))
    async with server.running():
        await asyncio.gather(*(write(server, number) for number in range(WRITERS)))


async def write(server: ApiServer, number: int) -> None:
    """Create, change and delete objects that are this writer's alone, for ever."""
    transport = server.transport()
    count = 0
    while True:
        name = f"{os.getpid()}-{number}-{count}"
        count += 1
        steps = [("POST", MAPS), ("PATCH", f"{MAPS}/{name}"), *[("DELETE", f"{MAPS}/{name}")] * (count % 3 == 0)]
        for method, path in steps:
            media = "application/merge-patch+json" if method == "PATCH" else "application/json"
            body = (
                json.dumps({"metadata": {"name": name}, "data": {"step": method}}).encode()
                if method != "DELETE"
                else b""
            )
            answer = await transport.request(method, path, headers={"content-type": media}, body=body)
            assert answer.status < 300, answer
            metadata = json.loads(answer.body)["metadata"]
            version = metadata["resourceVersion"] if method != "DELETE" else "gone"
            os.write(1, f"{name} {version} {metadata.get('uid', '')}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
