"""Servers that live in a file, one life after the other."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ktrain.local.apiserver.durability.database import Database
from ktrain.local.apiserver.durability.journal import Journal
from ktrain.local.apiserver.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def file(tmp_path):
    return tmp_path / "ktrain.db"


@pytest.fixture
def life(env, file):
    """A life of the server: `async with life() as server`. It ends as a server that is told to stop."""

    @asynccontextmanager
    async def life(**options) -> AsyncIterator[ApiServer]:
        server = ApiServer(env, journal=Journal(Database(file)), **options)
        async with server.running():
            yield server

    return life


@pytest.fixture
def api_of(api):
    """Requests to a server, in the words of the API."""
    return lambda server: type(api)(server.transport())
