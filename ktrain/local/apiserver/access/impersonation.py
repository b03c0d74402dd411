"""
The headers `Impersonate-User`, `-Group`, `-Uid` and `-Extra-*`: an allowed user's request in another one's name.

There are two ways to be allowed. The newer one (KEP-5284) is asked first: `impersonate:user-info` on the identity and
`impersonate-on:user-info:VERB` on what the request does. The older one is the verb `impersonate` on each part of the
identity, whatever the request does. Someone who has neither is told about the newer one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from ktrain.local.apiserver.access.account_tokens import account_groups
from ktrain.local.apiserver.access.attributes import Attributes, refusal
from ktrain.local.apiserver.access.credentials import ANONYMOUS, AUTHENTICATED
from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.errors import StatusError, bad_request
from ktrain.local.apiserver.names import label, subdomain
from ktrain.local.apiserver.requests import User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ktrain.local.apiserver.access.rbac import Decision

    Decide = Callable[[User, Attributes], Decision]

PREFIX: Final = "impersonate-"
_EXTRA: Final = f"{PREFIX}extra-"
_GROUP: Final = "authentication.k8s.io"
_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
_NODE: Final = "system:node:"
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOMAIN_PREFIXED: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/.+")


class Wanted(NamedTuple):
    """An identity as the headers ask for it."""

    name: str
    groups: tuple[str, ...]
    uid: str
    extra: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, headers: Iterable[tuple[str, str]]) -> Wanted | None:
        """
        Read the headers, whose names are in lower case and may repeat; None if they ask for nothing.

        Raises:
            StatusError: 400 for an identity without a name.
        """
        names, groups, uids = [], [], []
        extra: dict[str, list[str]] = {}
        for header, raw in headers:
            value = _text(raw)
            if header == f"{PREFIX}user":
                names.append(value)
            elif header == f"{PREFIX}group":
                groups.append(value)
            elif header == f"{PREFIX}uid":
                uids.append(value)
            elif header.startswith(_EXTRA):
                extra.setdefault(_key(header.removeprefix(_EXTRA)), []).append(value)
        name, uid = (next(iter(given), "") for given in (names, uids))
        wanted = cls(name, tuple(groups), uid, tuple((key, tuple(values)) for key, values in extra.items()))
        if name:
            return wanted
        if groups or uid or extra:
            raise bad_request(f"requested {wanted.as_go()} without impersonating a user name")
        return None

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name, if it is a service account."""
        found = _ACCOUNT.fullmatch(self.name)
        return (found[1], found[2]) if found and not label(found[1]) and not subdomain(found[2]) else None

    def user(self) -> User:
        """Return the user that the request is then made by, in the groups that such a user always has."""
        groups = self.groups
        if not groups and self.account is not None:
            groups = account_groups(self.account[0])
        anonymous = self.name == ANONYMOUS.name
        if anonymous:
            groups = tuple(dict.fromkeys([*groups, *ANONYMOUS.groups]))
        elif not {AUTHENTICATED, *ANONYMOUS.groups} & set(groups):
            groups = (*groups, AUTHENTICATED)
        return User(self.name, groups, self.uid, self.extra)

    def as_go(self) -> str:
        """Return it as the API server prints it."""
        groups = f"[]string{{{', '.join(map(quote, self.groups))}}}" if self.groups else "[]string(nil)"
        entries = (f"{quote(key)}:[]string{{{', '.join(map(quote, values))}}}" for key, values in sorted(self.extra))
        extra = f"map[string][]string{{{', '.join(entries)}}}" if self.extra else "map[string][]string(nil)"
        return f"&user.DefaultInfo{{Name:{quote(self.name)}, UID:{quote(self.uid)}, Groups:{groups}, Extra:{extra}}}"


def authorize(wanted: Wanted, user: User, asked: Attributes, decide: Decide) -> None:
    """
    Let a user be somebody else for a request, or not.

    Raises:
        StatusError: 403, about a right that is missing.
    """

    def first_refusal(parts: Iterable[Attributes]) -> StatusError | None:
        decisions = ((part, decide(user, part)) for part in parts)
        return next((refusal(user.name, part, made.reason) for part, made in decisions if not made.allowed), None)

    mode = _mode(wanted)
    newer = None
    if mode:
        newer = first_refusal([replace(asked, verb=f"impersonate-on:{mode}:{asked.verb}"), *_parts(wanted, mode)])
        if newer is None and all(_DOMAIN_PREFIXED.fullmatch(key) for key, _ in wanted.extra):
            return
    name, *others = _parts(wanted, "")
    # Whoever has the older right on the name is told what is missing of it.
    refused = first_refusal([name])
    if refused is not None:
        raise newer or refused
    if (refused := first_refusal(others)) is not None:
        raise refused


def _mode(wanted: Wanted) -> str:
    """Return which of the newer rights the identity needs; none of them allows accounts or nodes in other groups."""
    bare = not (wanted.groups or wanted.uid or wanted.extra)
    if wanted.account is not None:
        return "serviceaccount" if bare else ""
    if wanted.name.startswith(_NODE):
        return "arbitrary-node" if bare else ""
    return "user-info"


def _parts(wanted: Wanted, mode: str) -> Iterator[Attributes]:
    """Return what to hold for each part of the identity: a newer right or, without a mode, the older one."""
    verb, group = (f"impersonate:{mode}", _GROUP) if mode else ("impersonate", "")
    if wanted.account is not None:
        namespace, name = wanted.account
        yield Attributes(verb=verb, group=group, resource="serviceaccounts", namespace=namespace, name=name)
    elif mode == "arbitrary-node":
        yield Attributes(verb=verb, group=group, resource="nodes", name=wanted.name.removeprefix(_NODE))
    else:
        yield Attributes(verb=verb, group=group, resource="users", name=wanted.name)
    for name in wanted.groups:
        yield Attributes(verb=verb, group=group, resource="groups", name=name)
    if wanted.uid:
        yield Attributes(verb=verb, group=_GROUP, resource="uids", name=wanted.uid)
    for key, values in wanted.extra:
        for value in values:
            yield Attributes(verb=verb, group=_GROUP, resource="userextras", subresource=key, name=value)


def _text(raw: str) -> str:
    """Read a header's bytes as UTF-8; what is none is shown as the replacement character, as Go's JSON does."""
    return raw.encode(errors="surrogateescape").decode(errors="replace")


def _key(header: str) -> str:
    """Undo the percent-encoding of a key; one that is not encoded properly is meant as it is."""
    return _text(header) if _BAD_ESCAPE.search(header) else unquote(header)
