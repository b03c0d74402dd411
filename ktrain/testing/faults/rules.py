"""
Rules: which calls are met, and what happens to them.

    faults.on("create", "configmaps", nth=2).lose_answer()
           ----------- which calls --------  --- what ----

`Faults.on` makes a `When`; each of its methods adds a rule and returns it. A rule counts its hits, and ends by
`remove()`, or with the block if it is used as a context manager.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import requests, streams
from .calls import Call, CallLog, ResourceName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import TracebackType

    from ktrain.framework.env import Env

    from .requests import RequestEffect, Seconds
    from .streams import Event, StreamEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which calls; what is None fits all. See `Faults.on`."""

    verb: str | None = None
    resource: ResourceName | None = None
    method: str | None = None
    path: str | None = None
    name: str | None = None
    namespace: str | None = None
    nth: int | Collection[int] | None = None
    times: int | None = None
    probability: float = 1.0
    after_s: float = 0.0
    for_s: float = float("inf")
    where: Callable[[Call], bool] | None = None

    def fits(self, call: Call) -> bool:
        """Whether this is such a call, chance, count and time aside."""
        route = call.route
        return (
            (self.verb is None or self.verb in call.verbs)
            and (self.method is None or self.method == call.method)
            and (self.path is None or self.path in call.path)
            and (self.resource is None or call.concerns(self.resource))
            and (self.name is None or (route is not None and route.name == self.name))
            and (self.namespace is None or (route is not None and route.namespace == self.namespace))
            and (self.where is None or self.where(call))
        )


class Rule:
    """
    One rule in force. As a context manager it is removed at the end of the block.

    Attributes:
        hits: How many calls it met.
    """

    def __init__(
        self,
        text: str,
        match: Match,
        env: Env,
        *,
        on_call: RequestEffect | None = None,
        on_lines: StreamEffect | None = None,
    ) -> None:
        self.text = text
        self.match = match
        self.on_call = on_call
        self.on_lines = on_lines
        self.hits = 0
        self._seen = 0
        self._env = env
        self._since_s = env.clock.monotonic()
        self._removed = asyncio.Event()

    @property
    def active(self) -> bool:
        """Whether it may still meet calls, and still does what it does to the streams it met."""
        return not self._removed.is_set()

    async def removed(self) -> None:
        """Wait until it is removed."""
        await self._removed.wait()

    def remove(self) -> None:
        """Take it out of force; what it holds back goes on. Idempotent."""
        self._removed.set()

    def meets(self, call: Call) -> bool:
        """Decide for one call, and count."""
        if not self.active or not self.match.fits(call):
            return False
        match, now_s = self.match, self._env.clock.monotonic() - self._since_s
        self._seen += 1
        nth = (match.nth,) if isinstance(match.nth, int) else match.nth
        if (
            not match.after_s <= now_s < match.after_s + match.for_s
            or (nth is not None and self._seen not in nth)
            or (match.times is not None and self.hits >= match.times)
            or (match.probability < 1 and self._env.random.random() >= match.probability)
        ):
            return False
        self.hits += 1
        return True

    def __enter__(self) -> Rule:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Rule {self.text}, {self.hits} hits{'' if self.active else ', removed'}>"


class Faults:
    """The rules in force, and the log of what passed. Not thread-safe: it lives on one event loop."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.log = CallLog()
        self._rules: list[Rule] = []
        self._on_added: list[Callable[[Rule], None]] = []

    def on(
        self,
        verb: str | None = None,
        resource: ResourceName | None = None,
        *,
        method: str | None = None,
        path: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
        nth: int | Collection[int] | None = None,
        times: int | None = None,
        probability: float = 1.0,
        after_s: float = 0.0,
        for_s: float = float("inf"),
        where: Callable[[Call], bool] | None = None,
    ) -> When:
        """
        Say which calls; the method called on the result says what happens to them.

        Args:
            verb: RBAC's verb, or `read`, `write`, `apply`, `initial` (see `ktrain.testing.faults.calls`).
            resource: A resource, its plural, or plural and subresource: `jobs/status`.
            method: HTTP method.
            path: A part of the path.
            name: Of the object.
            namespace: Of the object or collection.
            nth: Only the nth of these calls, or those with these numbers; the first is 1.
            times: Only so many calls.
            probability: Of each call, drawn from `env.random`.
            after_s: From so long after now.
            for_s: For so long.
            where: Any other condition. May look at everything the call has.
        """
        return When(
            self,
            Match(
                verb=verb,
                resource=resource,
                method=method,
                path=path,
                name=name,
                namespace=namespace,
                nth=nth,
                times=times,
                probability=probability,
                after_s=after_s,
                for_s=for_s,
                where=where,
            ),
        )

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force, on streams that are open, too."""
        self._rules.append(rule)
        for tell in self._on_added:
            tell(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules: good weather."""
        for rule in self._rules:
            rule.remove()
        self._rules.clear()

    def meeting(self, call: Call) -> list[Rule]:
        """Return the rules that meet this call, counted and noted at it."""
        self._rules = [rule for rule in self._rules if rule.active]
        found = [rule for rule in self._rules if rule.meets(call)]
        call.faults += [rule.text for rule in found]
        return found

    def calls(
        self,
        verb: str | None = None,
        resource: ResourceName | None = None,
        *,
        name: str | None = None,
        since_s: float = 0.0,
        where: Callable[[Call], bool] | None = None,
    ) -> list[Call]:
        """Return the calls that passed and fit all that is given, in order."""
        return self.log.find(verb, resource, name=name, since_s=since_s, where=where)

    def count(
        self,
        verb: str | None = None,
        resource: ResourceName | None = None,
        *,
        name: str | None = None,
        since_s: float = 0.0,
        where: Callable[[Call], bool] | None = None,
    ) -> int:
        """How many calls `calls` would return."""
        return len(self.log.find(verb, resource, name=name, since_s=since_s, where=where))


class When:
    """Some calls (`Faults.on`). Each method puts one rule in force and returns it."""

    def __init__(self, faults: Faults, match: Match) -> None:
        self._faults = faults
        self._match = match

    # To a call and its answer; for a watch: to its opening

    def delay(self, before_s: Seconds = 0.0, *, answer_s: Seconds = 0.0) -> Rule:
        """Hold the call, or its answer, back. A pair of times is a range to draw from."""
        text = f"delay {before_s} s, answer {answer_s} s"
        return self._on_call(text, requests.delayed(self._faults.env, before_s, answer_s))

    def answer(
        self,
        code: int,
        *,
        reason: str = "",
        message: str = "",
        retry_after_s: int | None = None,
        committed: bool = False,
    ) -> Rule:
        """Answer with this Status; the server does not see the call, or does it all the same if `committed`."""
        effect = requests.answered(
            code, reason=reason, message=message, retry_after_s=retry_after_s, committed=committed
        )
        return self._on_call(f"answer {code}", effect)

    def lose_request(self) -> Rule:
        """The server never gets the call, and the caller no answer: it waits until its time-out."""
        return self._on_call("lose request", requests.lost(committed=False, at_once=False))

    def lose_answer(self) -> Rule:
        """The server does what was asked; the caller never learns it and waits until its time-out."""
        return self._on_call("lose answer", requests.lost(committed=True, at_once=False))

    def refuse(self) -> Rule:
        """The connection is refused: not sent, and the caller knows at once that something is wrong."""
        return self._on_call("refuse", requests.lost(committed=False, at_once=True))

    def reset(self) -> Rule:
        """The server does what was asked; the connection breaks before the answer."""
        return self._on_call("reset", requests.lost(committed=True, at_once=True))

    def do(self, effect: RequestEffect, text: str = "do") -> Rule:
        """An effect of your own: gets the call and `send`, returns the answer or raises TransportError."""
        return self._on_call(text, effect)

    # To the lines of a watch

    def cut(
        self,
        *,
        after_lines: int | None = None,
        every_s: float | None = None,
        mid_line: bool = False,
        clean: bool = False,
    ) -> Rule:
        """
        Break the stream after a number of lines or some time, at once if neither is given.

        `mid_line` delivers half of the last line before, `clean` ends the stream as a server does that has had enough.
        """
        text = f"cut after {after_lines} lines, every {every_s} s"
        effect = streams.cut(self._faults.env, after_lines=after_lines, every_s=every_s, mid_line=mid_line, clean=clean)
        return self._on_lines(text, effect)

    def silence(self, *, after_lines: int = 0) -> Rule:
        """A black hole: no line comes, and nothing ends. What was held back comes when the rule is removed."""
        return self._on_lines("silence", streams.silence(after_lines=after_lines))

    def lag(self, seconds: float) -> Rule:
        """Deliver every line so much later: the cache behind it is stale."""
        return self._on_lines(f"lag {seconds} s", streams.lag(self._faults.env, seconds))

    def slow(self, seconds_per_line: float) -> Rule:
        """Read slowly, so that the server has to keep what it sends."""
        return self._on_lines(f"slow {seconds_per_line} s", streams.slow(self._faults.env, seconds_per_line))

    def duplicate(self, times: int = 2) -> Rule:
        """Deliver each event more than once."""
        return self._on_lines(f"duplicate {times}", streams.duplicate(times))

    def replay(self, last: int) -> Rule:
        """Begin each resumed watch with the last events of the one before: old states once more."""
        return self._on_lines(f"replay {last}", streams.replay(last))

    def drop(self, where: Callable[[Event], bool] = lambda _event: True) -> Rule:
        """Never deliver these events. No API server does that; use it to prove that a test would notice."""
        return self._on_lines("drop", streams.changed(lambda event: None if where(event) else event))

    def change(self, function: Callable[[Event], Event | None]) -> Rule:
        """Put each event through a function."""
        return self._on_lines("change", streams.changed(function))

    def error_event(self, code: int, *, after_lines: int = 0, reason: str = "", message: str = "") -> Rule:
        """End the stream with an ERROR event: 410 is a version that is too old."""
        effect = streams.error_event(code, after_lines=after_lines, reason=reason, message=message)
        return self._on_lines(f"ERROR {code}", effect)

    def _on_call(self, text: str, effect: RequestEffect) -> Rule:
        return self._faults.add(Rule(text, self._match, self._faults.env, on_call=effect))

    def _on_lines(self, text: str, effect: StreamEffect) -> Rule:
        return self._faults.add(Rule(text, self._match, self._faults.env, on_lines=effect))
