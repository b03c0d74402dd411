"""
Reading kubeconfigs: several files merged, one context chosen, each mistake named with its place.

As in client-go, of two entries with one name the whole entry of the earlier file counts, and the first file that says
so names the current context; relative paths are relative to the file they are written in. Only what the chosen context
needs is checked, so that a broken entry for another cluster is in nobody's way.

Why not kubernetes_asyncio, which reads them, too: importing it costs 0.3 s and 60 MB, it reads only half of the fields
(no impersonation, nothing new from plugins after their first run), and its errors do not say where.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ktrain.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json

T = TypeVar("T")
HOME: Final = Path("~/.kube/config")
SECTIONS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


class Fields(msgspec.Struct, rename="kebab", gc=False):
    """A part of a kubeconfig; unknown fields are ignored, as kubectl does."""


class Extension(Fields):
    """Something for a program other than the client."""

    name: str = ""
    extension: Any = None  # JSON edge: whatever that program wants


class ClusterFields(Fields):
    """An API server."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[Extension] | None = None


class ExecVariable(msgspec.Struct, gc=False):
    """A variable for an exec plugin."""

    name: str
    value: str = ""


class ExecFields(msgspec.Struct, rename="camel", gc=False):
    """An exec plugin."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class AuthProvider(Fields):
    """What there was before exec plugins."""

    name: str = ""
    config: dict[str, Any] = {}  # JSON edge: each provider has fields of its own


class UserFields(Fields):
    """Who we are. The fields of token files and impersonation are spelled as they are in kubeconfigs."""

    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    impersonate: str | None = msgspec.field(default=None, name="as")
    impersonate_uid: str | None = msgspec.field(default=None, name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")
    auth_provider: AuthProvider | None = None
    exec: ExecFields | None = None


class ContextFields(Fields):
    """A cluster, a user and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One named entry, and the file it is in. Its text does not show the content."""

    section: str
    name: str
    file: Path
    content: Any  # JSON edge: not yet checked

    def __repr__(self) -> str:
        return f"{SECTIONS[self.section]} {self.name!r} in {self.file}"

    def error(self, problem: str) -> ConfigError:
        """An error that says where."""
        return ConfigError(
            f"the kubeconfig {self.file} cannot be used: {SECTIONS[self.section]} {self.name!r}: {problem}"
        )

    def read(self, type_: type[T]) -> T:
        """Read the content; a ConfigError names the field that does not fit, never its value."""
        try:
            return msgspec.convert(self.content or {}, type_)
        except msgspec.ValidationError as error:
            raise self.error(str(error).replace("$.", "").replace("`", "")) from None

    def path(self, text: str) -> str:
        """Return the path that the entry means, which may be relative to its file."""
        return str(self.file.parent / text)

    def pem(self, field: str, text: str) -> bytes:
        """Decode the PEM text of a `...-data` field."""
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(f"{field} is not base64") from None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a context names. The user may be missing: anonymous."""

    cluster: Entry
    user: Entry | None
    namespace: str


class Kubeconfig:
    """
    Files merged.

    Raises:
        ConfigError: A file is malformed, or none is there.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths: tuple[Path, ...] = tuple(paths)
        self.current: str = ""
        self._entries: dict[tuple[str, str], Entry] = {}
        for path in paths:
            if (content := _parse(path, is_only=len(paths) == 1)) is not None:
                self._merge(path, content)
        if not self._entries:
            raise ConfigError(f"the kubeconfig {self} cannot be used: it is missing or names no cluster")

    def __str__(self) -> str:
        return os.pathsep.join(map(str, self.paths))

    def _merge(self, path: Path, content: Json) -> None:
        if not self.current and isinstance(current := content.get("current-context"), str):
            self.current = current
        for section, singular in SECTIONS.items():
            entries: Any = content.get(section) or []
            if not isinstance(entries, list):
                raise ConfigError(f"the kubeconfig {path} cannot be used: {section} is no list")
            for number, entry in enumerate(entries):
                name = entry.get("name") if isinstance(entry, dict) else None
                if not isinstance(entry, dict) or not isinstance(name, str):
                    raise ConfigError(f"the kubeconfig {path} cannot be used: {section}[{number}] has no name")
                self._entries.setdefault((section, name), Entry(section, name, path, entry.get(singular)))

    def find(self, section: str, name: str) -> Entry | None:
        """One entry, if it is there."""
        return self._entries.get((section, name))

    def choose(self, context: str | None = None) -> Chosen:
        """
        Follow a context, or the current one.

        Raises:
            ConfigError: It, or what it names, is not there.
        """
        name = context or self.current
        if not name:
            raise ConfigError(f"the kubeconfig {self} cannot be used: it has no current-context; name a context")
        entry = self.find("contexts", name)
        if entry is None:
            known = ", ".join(sorted(name for section, name in self._entries if section == "contexts"))
            raise ConfigError(f"the kubeconfig {self} cannot be used: no context {name!r}; there is {known or 'none'}")
        fields = entry.read(ContextFields)
        cluster = self.find("clusters", fields.cluster)
        if cluster is None:
            raise entry.error(f"its cluster {fields.cluster!r} is not there")
        user = self.find("users", fields.user)
        if user is None and fields.user:
            raise entry.error(f"its user {fields.user!r} is not there")
        return Chosen(cluster, user, fields.namespace or "default")


def kubeconfig_paths(named: str | None) -> list[Path]:
    """The files to read: the one named, else those of KUBECONFIG, else that of the home directory."""
    if named:
        return [Path(named).expanduser().absolute()]
    listed = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return [Path(part).expanduser().absolute() for part in listed] or [HOME.expanduser()]


def _parse(path: Path, *, is_only: bool) -> Json | None:
    """Read one file; None if it is missing or empty and others may be there."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError as error:
        if is_only:
            raise ConfigError(f"the kubeconfig {path} cannot be used: it is not there") from error
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the kubeconfig {path} cannot be used: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the text of the error would quote the line, and what is in it
        where = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it is no YAML"
        raise ConfigError(f"the kubeconfig {path} cannot be used: {problem}{where}") from None
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"the kubeconfig {path} cannot be used: it is no mapping")
    return content
