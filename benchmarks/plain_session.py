"""An aiohttp session with the first cluster and user of a kubeconfig, for the programs that are baselines."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def plain_session(kubeconfig: str) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Yield a session that never gives up, and the server's URL."""
    config = yaml.safe_load(await asyncio.to_thread(Path(kubeconfig).read_text))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    url: str = cluster["server"]
    authority: ssl.SSLContext | bool = False
    if url.startswith("https"):
        authority = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
        if "certificate-authority-data" in cluster:
            authority.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}", "User-Agent": "null-controller"}
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(ssl=authority)
    async with aiohttp.ClientSession(
        headers=headers, timeout=timeout, connector=connector, read_bufsize=1 << 20
    ) as session:
        yield session, url
