"""A kubeconfig for the embedded control plane: one cluster, one user with a bearer token."""

from __future__ import annotations

import base64
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

import yaml

NAME: Final = "ktrain"


def new_token() -> str:
    """A random bearer token, 256 bits."""
    return secrets.token_urlsafe(32)


def render(url: str, token: str, ca: bytes, namespace: str = "default") -> str:
    """The kubeconfig as YAML; `ca` is a certificate as PEM."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def write(path: Path, url: str, token: str, ca: bytes) -> None:
    """
    Write the file so that only its owner can read it, whole or not at all.

    Raises:
        OSError: The directory does not exist or cannot be written.
    """
    # A new file under a name that nobody can guess, 0600 from the start: in a directory that others may write to, a
    # file or link laid out for the draft would give them the token.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(render(url, token, ca))
        draft.replace(path)
    except BaseException:
        draft.unlink()
        raise
