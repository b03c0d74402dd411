"""Roles and bindings: what makes one valid. Who may write which is a matter of admission (`access/escalation.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.access.rbac import GROUP
from ktrain.local.apiserver.builtins.simple import PlainStrategy
from ktrain.local.apiserver.builtins.values.selectors import validate_selector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_SUBJECTS: Final = {"ServiceAccount": "", "User": GROUP, "Group": GROUP}
"""Kinds of subjects and their API groups, in the order in which complaints list them."""


class RoleStrategy(PlainStrategy):
    """Roles and ClusterRoles."""

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """RBAC names may hold colons and capitals."""
        return names.path_segment(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Rules are always written, also when there are none."""
        obj["rules"] = obj.get("rules") or None

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Every rule has verbs, and is about resources or URLs; who gathers roles says which."""
        found = [
            cause
            for index, rule in enumerate(obj.get("rules") or ())
            for cause in _check_rule(rule, f"rules[{index}]", namespaced=self._namespaced)
        ]
        gathering = obj.get("aggregationRule")
        return found if gathering is None else [*found, *_check_aggregation(gathering)]


class BindingStrategy(PlainStrategy):
    """RoleBindings and ClusterRoleBindings."""

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def check_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """RBAC names may hold colons and capitals."""
        return names.path_segment(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Fill in API groups."""
        reference = obj.setdefault("roleRef", {"apiGroup": "", "kind": "", "name": ""})
        if isinstance(reference, dict) and not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        if not obj.get("subjects"):
            obj.pop("subjects", None)
        for subject in obj.get("subjects", ()):
            if not subject.get("apiGroup"):
                subject.pop("apiGroup", None)
                if group := _SUBJECTS.get(subject.get("kind", "")):
                    subject["apiGroup"] = group

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the reference and the subjects."""
        found = list(_check_reference(obj["roleRef"], ["Role", "ClusterRole"] if self._namespaced else ["ClusterRole"]))
        for index, subject in enumerate(obj.get("subjects") or ()):
            found += _check_subject(subject, f"subjects[{index}]", namespaced=self._namespaced)
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """What a binding grants stays; whom it grants it to may change."""
        reference = obj["roleRef"]
        if reference == old.get("roleRef"):
            return ()
        shown = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        return [causes.invalid("roleRef", shown, "cannot change roleRef")]


def _check_rule(rule: Json, field: str, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield causes.required(f"{field}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{field}.nonResourceURLs"
        if namespaced:
            yield causes.invalid(where, urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            yield causes.invalid(where, urls, "rules cannot apply to both regular resources and non-resource URLs")
        return
    if not rule.get("apiGroups"):
        yield causes.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield causes.required(f"{field}.resources", "resource rules must supply at least one resource")


def _check_aggregation(gathering: Json) -> Iterator[Cause]:
    field = "aggregationRule.clusterRoleSelectors"
    selectors = gathering.get("clusterRoleSelectors")
    if not selectors:
        yield causes.required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors or ()):
        found = list(validate_selector(selector, f"{field}[{index}]"))
        yield from found
        if found:
            yield causes.invalid(f"{field}[{index}]", None, "invalid label selector.")


def _check_reference(reference: Json, kinds: list[str]) -> Iterator[Cause]:
    if reference.get("apiGroup") != GROUP:
        yield causes.not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), [GROUP])
    if reference.get("kind") not in kinds:
        yield causes.not_supported("roleRef.kind", reference.get("kind", ""), kinds)
    name = reference.get("name", "")
    if not name:
        yield causes.required("roleRef.name")
    yield from (causes.invalid("roleRef.name", name, text) for text in names.path_segment(name))


def _check_subject(subject: Json, field: str, *, namespaced: bool) -> Iterator[Cause]:
    kind, name, group = (subject.get(part) or "" for part in ("kind", "name", "apiGroup"))
    if not name:
        yield causes.required(f"{field}.name")
    if kind not in _SUBJECTS:
        yield causes.not_supported(f"{field}.kind", kind, list(_SUBJECTS))
        return
    if kind == "ServiceAccount":
        if name:
            yield from (causes.invalid(f"{field}.name", name, text) for text in names.subdomain(name))
        if not namespaced and not subject.get("namespace"):
            yield causes.required(f"{field}.namespace")
    if group != _SUBJECTS[kind]:
        yield causes.not_supported(f"{field}.apiGroup", group, [_SUBJECTS[kind]])
