"""
Role-based access control: all bindings, indexed by whom they are for.

A binding is indexed when it is committed, by namespace (none for ClusterRoleBindings) and subject, so a decision looks
at the few that name the user or one of the groups, however many there are. Roles are read and compiled when first
needed. Allowed is what any rule allows; there is no way to deny, and a role that does not exist grants nothing.

Source of the rules: `rbac.authorization.k8s.io/v1` and its authoriser, whose reasons these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.api.meta import Key
from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.access.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.access.attributes import Attributes
    from ktrain.local.apiserver.requests import User
    from ktrain.local.apiserver.storage.store import Change, Store

GROUP: Final = "rbac.authorization.k8s.io"
MASTERS: Final = "system:masters"
"""The group that may do everything, whatever roles say."""
_ROLES: Final = {"Role": f"roles.{GROUP}", "ClusterRole": f"clusterroles.{GROUP}"}
_BINDINGS: Final = {f"rolebindings.{GROUP}": "RoleBinding", f"clusterrolebindings.{GROUP}": "ClusterRoleBinding"}
_ACCOUNT: Final = "system:serviceaccount"

Principal = tuple[str, str]
"""`("User", name)` or `("Group", name)`; service accounts are users."""


class Decision(NamedTuple):
    """Whether something is allowed, and what allowed it; of what is not, which roles were looked for in vain."""

    allowed: bool
    reason: str = ""


class _Grant(NamedTuple):
    """What one binding gives to one subject."""

    role_kind: str
    role: Key
    reason: str


class RoleMissing(LookupError):
    """A binding names a role that does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind.lower()}.{GROUP} {quote(name)} not found")
        self.name = name


class Rbac:
    """The rights of all users, as the store's roles and bindings give them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: dict[str, dict[Principal, dict[Key, _Grant]]] = {}
        self._compiled: dict[tuple[str, Key], tuple[Rule, ...]] = {}
        for collection in _BINDINGS:
            for key, item in store.collection(collection).entries():
                self._bind(collection, key, item.obj)
        store.listen(self._observe)

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Decide whether a user may do something."""
        missing: list[str] = []
        for grant in self._grants_of(user, asked.namespace):
            try:
                rules = self.role(grant.role_kind, grant.role)
            except RoleMissing as error:
                missing.append(str(error))
                continue
            if any(rule.allows(asked) for rule in rules):
                return Decision(allowed=True, reason=grant.reason)
        return Decision(allowed=False, reason=f"RBAC: {together(missing)}" if missing else "")

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], list[RoleMissing]]:
        """Return all rules that hold for a user in a namespace, and which roles bound to them do not exist."""
        rules: dict[Rule, None] = {}
        missing: list[RoleMissing] = []
        for grant in self._grants_of(user, namespace):
            try:
                rules.update(dict.fromkeys(self.role(grant.role_kind, grant.role)))
            except RoleMissing as error:
                missing.append(error)
        return list(rules), missing

    def role(self, kind: str, key: Key) -> tuple[Rule, ...]:
        """
        Return the rules of a Role or ClusterRole.

        Raises:
            RoleMissing: There is none of that name.
        """
        found = self._compiled.get((_ROLES[kind], key))
        if found is None:
            item = self._store.collection(_ROLES[kind]).get(key)
            if item is None:
                raise RoleMissing(kind, key.name)
            found = self._compiled[_ROLES[kind], key] = tuple(map(Rule.of, item.obj.get("rules") or ()))
        return found

    def _grants_of(self, user: User, namespace: str) -> Iterator[_Grant]:
        principals = [("User", user.name), *(("Group", group) for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            grants = self._grants.get(scope)
            if grants:
                for principal in principals:
                    yield from grants.get(principal, {}).values()

    def _observe(self, collection: str, change: Change) -> None:
        if collection in _BINDINGS:
            if change.before is not None:
                self._unbind(change.key, change.before.obj)
            if change.after is not None:
                self._bind(collection, change.key, change.after.obj)
        else:
            self._compiled.pop((collection, change.key), None)

    def _bind(self, collection: str, key: Key, binding: Json) -> None:
        reference = binding["roleRef"]
        kind, name = reference["kind"], reference["name"]
        role = Key("" if kind == "ClusterRole" else key.namespace, name)
        by = f"{key.name}/{key.namespace}" if key.namespace else key.name
        granted = f"RBAC: allowed by {_BINDINGS[collection]} {quote(by)} of {kind} {quote(name)} to "
        scope = self._grants.setdefault(key.namespace, {})
        for subject in binding.get("subjects") or ():
            principal, shown = _principal(subject, key.namespace)
            scope.setdefault(principal, {})[key] = _Grant(kind, role, granted + shown)

    def _unbind(self, key: Key, binding: Json) -> None:
        scope = self._grants[key.namespace]
        for subject in binding.get("subjects") or ():
            principal, _ = _principal(subject, key.namespace)
            grants = scope.get(principal, {})
            grants.pop(key, None)
            if not grants:
                scope.pop(principal, None)
        if not scope:
            del self._grants[key.namespace]


def _principal(subject: Json, namespace: str) -> tuple[Principal, str]:
    """Return who a subject is, and how reasons name it. `namespace` is the binding's own."""
    kind, name = subject["kind"], subject["name"]
    if kind == "ServiceAccount":
        home = subject.get("namespace") or namespace
        return ("User", f"{_ACCOUNT}:{home}:{name}"), f"{kind} {quote(f'{name}/{home}')}"
    return (kind, name), f"{kind} {quote(name)}"


def together(problems: Iterable[str]) -> str:
    """Return several problems as one, each of them once."""
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
