"""
The life of a self-managed certificate, as steps between states that all replicas share.

    created     a pair, and a bundle with its CA
    announced   when two thirds of its life are over: the next pair is made, and its CA joins the bundle. Everybody
                goes on serving the old one while API servers learn of the new CA
    promoted    when every registration has carried the bundle for a while: the next pair is served. The old CA stays
                in the bundle until it expires, so a replica that has not noticed yet is still trusted

So at every moment each replica serves what each API server trusts, whatever the order in which they learn.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from . import authority
from .certificates import KeyPair

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from ktrain.api.meta import Json

MAX_BUNDLE: Final = 5
"""CAs in a bundle; more than two only after people had certificates made again by hand."""


@dataclass(frozen=True, slots=True)
class State:
    """What the Secret holds: the pair to serve, the CAs to trust (newest first), and the pair to serve next."""

    pair: KeyPair
    authorities: tuple[bytes, ...]
    next: KeyPair | None = field(default=None)

    @property
    def bundle(self) -> bytes:
        """The CAs as one PEM document."""
        return b"".join(self.authorities)


@dataclass(frozen=True, slots=True)
class Rotation:
    """
    When to take which step.

    Attributes:
        names: DNS names and IP addresses to be certified.
        lifetime: Of a certificate and its CA.
        overlap: From announcing a CA to serving with it, at the least.
    """

    names: tuple[str, ...]
    lifetime: timedelta
    overlap: timedelta

    def create(self, now: datetime) -> State:
        """Begin."""
        issued = self._issue(now)
        return State(issued.pair, (issued.ca,))

    def announce(self, state: State, now: datetime) -> State:
        """Make the next pair, and have its CA trusted."""
        issued = self._issue(now)
        return State(state.pair, (issued.ca, *self._alive(state, now))[:MAX_BUNDLE], issued.pair)

    def step(self, state: State, now: datetime, *, carried: bool) -> tuple[str, State] | None:
        """
        Return the step that is due and the state after it, None if none is.

        `carried` says that the bundle has been in every registration for a while.
        """
        serving = authority.validity(state.pair.certificate)
        if serving.ends <= now or not self._certifies(serving):
            following = authority.validity(state.next.certificate) if state.next else None
            if state.next and following and following.ends > now and self._certifies(following):
                return "promoted", self._promote(state, state.next, now)
            issued = self._issue(now)
            return "created", State(issued.pair, (issued.ca, *self._alive(state, now))[:MAX_BUNDLE])
        if state.next is None:
            due = serving.ends - (serving.ends - serving.begins - authority.SKEW) / 3
            return ("announced", self.announce(state, now)) if now >= due else None
        following = authority.validity(state.next.certificate)
        if following.ends <= now or not self._certifies(following):
            return "announced", self.announce(state, now)
        if carried and now >= following.begins + authority.SKEW + self.overlap:
            return "promoted", self._promote(state, state.next, now)
        return None

    def is_usable(self, state: State, now: datetime) -> bool:
        """Whether the pair of a state may still be served."""
        serving = authority.validity(state.pair.certificate)
        return serving.ends > now and self._certifies(serving)

    def _promote(self, state: State, pair: KeyPair, now: datetime) -> State:
        return State(pair, tuple(self._alive(state, now)))

    def _certifies(self, validity: authority.Validity) -> bool:
        return validity.names >= set(self.names)

    def _alive(self, state: State, now: datetime) -> Sequence[bytes]:
        return [ca for ca in state.authorities if authority.validity(ca).ends > now]

    def _issue(self, now: datetime) -> authority.Issue:
        return authority.issue(self.names, now=now, lifetime=self.lifetime)


def data_of(state: State) -> Json:
    """Write a state as the data of a Secret, under the keys of the type kubernetes.io/tls."""
    parts = {"tls.crt": state.pair.certificate, "tls.key": state.pair.key, "ca.crt": state.bundle}
    if state.next is not None:
        parts |= {"next.crt": state.next.certificate, "next.key": state.next.key}
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def state_of(data: Json) -> State | None:
    """Read a state from the data of a Secret; None if somebody damaged it."""
    try:
        parts = {name: base64.b64decode(value) for name, value in data.items()}
        pair = KeyPair(parts["tls.crt"], parts["tls.key"])
        authorities = tuple(authority.split_bundle(parts["ca.crt"]))
        following = KeyPair(parts["next.crt"], parts["next.key"]) if "next.crt" in parts else None
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    if not authorities or not authority.fits(pair) or (following is not None and not authority.fits(following)):
        return None
    return State(pair, authorities, following)
