"""From the file back into a store: definitions first, so that the kinds of all other objects are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ktrain.api.meta import Key
from ktrain.local.apiserver.builtins.definitions.kind import COLLECTION
from ktrain.local.apiserver.storage.store import Item, decode

from .errors import StateError

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend

    from .database import Database, Row


def restore(backend: Backend, database: Database) -> None:
    """
    Fill an empty store with what the file holds, under the versions it had.

    The store's listeners are told of each object, so that definitions are served and owners known.

    Raises:
        StateError: The file is damaged, or cannot be written.
    """
    backend.store.revision = database.start()
    rows = list(database.rows())
    rows.sort(key=lambda row: row.collection != COLLECTION)
    for row in rows:
        try:
            obj: Json = {"kind": row.kind, "apiVersion": row.api_version, **decode(row.body)}
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
            raise StateError(
                f"{database.path} is damaged: {row.collection} {row.namespace}/{row.name}: {error}"
            ) from error
        item = Item(obj, row.revision, _schema(backend, row, obj))
        backend.store.restore(row.collection, Key(row.namespace, row.name), item)


def _schema(backend: Backend, row: Row, obj: Json) -> object:
    """
    Return the schema that an object is known to fit, None if it has to be fitted whenever it is read.

    Built-in kinds are written through their schema, and that changes only with the program. A definition may have
    changed after the object was written.
    """
    resource = backend.registry.by_kind(row.api_version, row.kind)
    if resource is None or resource.collection != row.collection or resource.strategy.converts:
        return None
    if not resource.custom:
        return resource.schema
    fitted = resource.schema.default(resource.schema.prune(obj)[0])
    return resource.schema if fitted == obj else None
