"""
One rule of a role: what it allows, which other rules it covers, and how it is written.

Source of the rules: `rbac.authorization.k8s.io/v1` PolicyRule, and the texts of `k8s.io/component-helpers`.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.local.apiserver.access.quoting import quote_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.access.attributes import Attributes

ALL: Final = "*"
_BREADTH_LIMIT: Final = 20_000
"""A rule that allows more single things than this is not taken apart: nobody would read the list."""


class Rule(NamedTuple):
    """A PolicyRule. Its parts keep the order in which they were written."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, obj: Json) -> Rule:
        """Read one entry of a role's `rules`."""
        fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(obj.get(field) or ()) for field in fields))

    def allows(self, asked: Attributes) -> bool:
        """Whether this rule alone allows what is asked."""
        if ALL not in self.verbs and asked.verb not in self.verbs:
            return False
        if asked.path is not None:
            return any(_matches_path(url, asked.path) for url in self.urls)
        return (
            (ALL in self.groups or asked.group in self.groups)
            and self._has_resource(asked.resource, asked.subresource)
            and (not self.names or asked.name in self.names)
        )

    def covers(self, other: Rule) -> bool:
        """Whether everything that another rule allows is allowed by this one."""
        if ALL not in self.verbs and not set(other.verbs) <= set(self.verbs):
            return False
        if other.urls:
            return all(any(_matches_path(mine, url) for mine in self.urls) for url in other.urls)
        return (
            (ALL in self.groups or set(other.groups) <= set(self.groups))
            and all(self._has_resource(*_split(resource)) for resource in other.resources)
            and (not self.names or (bool(other.names) and set(other.names) <= set(self.names)))
        )

    def singles(self) -> Iterator[Rule]:
        """Break the rule into ones that allow a single thing each."""
        for url, verb in product(self.urls, self.verbs):
            yield Rule(verbs=(verb,), urls=(url,))
        for group, resource, verb in product(self.groups, self.resources, self.verbs):
            for name in self.names or (None,):
                yield Rule((verb,), (group,), (resource,), (name,) if name is not None else ())

    @property
    def breadth(self) -> int:
        """How many single things the rule allows."""
        things = len(self.groups) * len(self.resources) * max(1, len(self.names)) + len(self.urls)
        return len(self.verbs) * things

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def __str__(self) -> str:
        parts = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.urls,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{quote_all(values)}" for name, values in parts.items() if values) + "}"


def uncovered(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return what the wanted rules allow and the held ones do not, those of one resource put together."""
    verbs: dict[Rule, list[str]] = {}
    for rule in wanted:
        if any(one.covers(rule) for one in held):
            continue
        for single in rule.singles() if rule.breadth <= _BREADTH_LIMIT else (rule,):
            if not any(one.covers(single) for one in held):
                key = single if single.urls else single._replace(verbs=())
                verbs.setdefault(key, []).extend(single.verbs)
    return [rule._replace(verbs=tuple(dict.fromkeys(found))) for rule, found in verbs.items()]


def missing_rule(asked: Attributes) -> Json:
    """Return the rule that would have allowed it, as one would write it into a role."""
    if asked.path is not None:
        return {"nonResourceURLs": [asked.path], "verbs": [asked.verb]}
    return {"apiGroups": [asked.group], "resources": [asked.whole_resource], "verbs": [asked.verb]}


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource


def _matches_path(pattern: str, path: str) -> bool:
    return pattern in {ALL, path} or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))
