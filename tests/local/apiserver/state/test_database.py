"""Files that cannot be used, and what is said about them."""

from __future__ import annotations

import sqlite3
import stat

import pytest

from ktrain.local.apiserver.durability.database import Database, Row
from ktrain.local.apiserver.durability.errors import StateError

ROW = Row("configmaps", "default", "a", 1, "v1", "ConfigMap", b'{"metadata":{"name":"a"}}')


def test_a_file_is_one_servers_at_a_time(file):
    first = Database(file)
    with pytest.raises(StateError, match=r"ktrain\.db is in use by another process"):
        Database(file)

    first.close(complete=True)
    Database(file).close(complete=True)


def test_only_its_owner_can_read_it(file):
    database = Database(file)
    database.write([ROW], [], 1)

    assert {stat.S_IMODE(part.stat().st_mode) for part in file.parent.glob("ktrain.db*")} == {0o600}
    database.close(complete=True)


def test_what_is_no_database_is_said_to_be_damaged(file):
    file.write_bytes(b"certainly no database" * 1000)

    with pytest.raises(StateError, match=r"ktrain\.db is damaged \(restore it from a backup.*not a database"):
        Database(file)


def test_a_torn_page_is_found_at_the_start(file):
    database = Database(file)
    for number in range(50):
        database.write([ROW._replace(name=str(number), body=ROW.body * 100)], [], number + 1)
    database.close(complete=True)
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8192] = b"\xff" * 8192
    file.write_bytes(content)

    with pytest.raises(StateError, match=r"ktrain\.db is damaged"):
        Database(file)


async def test_an_object_that_cannot_be_read_is_named(file, life):
    database = Database(file)
    database.write([ROW._replace(body=b"{]")], [], 1)
    database.close(complete=True)

    with pytest.raises(StateError, match=r"ktrain\.db is damaged: configmaps default/a: JSON is malformed") as refused:
        async with life():
            pass
    Database(file).close(complete=True)  # It is not in use, although what was begun is still held by its error.
    assert refused.value.__traceback__


def test_a_newer_format_is_refused_with_what_to_do(file):
    Database(file).close(complete=True)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()

    with pytest.raises(StateError, match="has format 7, this version of ktrain reads formats up to 1: use the version"):
        Database(file)


def test_the_database_of_another_program_is_left_alone(file):
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = file.read_bytes()

    with pytest.raises(StateError, match="is a database of another program: name another directory"):
        Database(file)
    assert file.read_bytes()[100:] == before[100:]


def test_a_batch_is_stored_whole_or_not_at_all(file):
    database = Database(file)
    with pytest.raises(sqlite3.IntegrityError):
        database.write([ROW, ROW._replace(name=None)], [], 2)

    assert list(database.rows()) == []
    database.write([ROW], [], 1)
    assert list(database.rows()) == [ROW]
    database.close(complete=True)
