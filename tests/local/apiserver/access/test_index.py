"""The index of bindings, against asking all of them."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.api.meta import Key
from ktrain.local.apiserver.access.attributes import Attributes
from ktrain.local.apiserver.access.rbac import GROUP, Rbac
from ktrain.local.apiserver.access.rules import Rule
from ktrain.local.apiserver.requests import User
from ktrain.local.apiserver.storage.store import Store

NAMESPACES = ("", "one", "two")
NAMES = ("a", "b")
ACCOUNT = "system:serviceaccount:one:a"

subjects = st.one_of(
    st.fixed_dictionaries({"kind": st.sampled_from(["User", "Group"]), "name": st.sampled_from([*NAMES, ACCOUNT])}),
    st.fixed_dictionaries(
        {
            "kind": st.just("ServiceAccount"),
            "name": st.sampled_from(NAMES),
            "namespace": st.sampled_from(["one", "two"]),
        }
    ),
)
rules = st.fixed_dictionaries(
    {
        "verbs": st.lists(st.sampled_from(["get", "list", "*"]), min_size=1, max_size=2),
        "apiGroups": st.just([""]),
        "resources": st.lists(st.sampled_from(["pods", "pods/log", "*/log", "*"]), min_size=1, max_size=2),
        "resourceNames": st.lists(st.sampled_from(["x"]), max_size=1),
    }
)
roles = st.tuples(st.just("role"), st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.lists(rules, max_size=2))
bindings = st.tuples(
    st.just("binding"),
    st.sampled_from(NAMESPACES),
    st.sampled_from(NAMES),
    st.tuples(st.sampled_from(["Role", "ClusterRole"]), st.sampled_from(NAMES), st.lists(subjects, max_size=3)),
)
deletions = st.tuples(
    st.sampled_from(["no role", "no binding"]), st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.none()
)
USERS = [User(name, groups) for name in (*NAMES, ACCOUNT) for groups in ((), ("a",), ("a", "b"))]
QUESTIONS = [
    Attributes(verb=verb, resource="pods", subresource=sub, namespace=namespace, name=name)
    for verb, sub, namespace, name in itertools.product(("get", "list"), ("", "log"), NAMESPACES, ("", "x"))
]


@settings(max_examples=60)
@given(st.lists(st.one_of(roles, bindings, deletions), max_size=12))
def test_every_decision_is_that_of_all_bindings(steps):
    store = Store()
    rbac = Rbac(store)
    for what, namespace, name, content in steps:
        _apply(store, what, Key(namespace, name), content)
    for user, asked in itertools.product(USERS, QUESTIONS):
        assert rbac.decide(user, asked).allowed is _naive(store, user, asked), (user, asked)


def _apply(store, what, key, content):
    plural = ("cluster" if not key.namespace else "") + ("roles" if what.endswith("role") else "rolebindings")
    collection = f"{plural}.{GROUP}"
    item = store.collection(collection).get(key)
    if what.startswith("no "):
        if item is not None:
            store.remove(collection, key, expected=item.revision)
        return
    obj = {"metadata": {"name": key.name, "namespace": key.namespace}}
    if what == "role":
        obj["rules"] = content
    else:
        kind, name, found = content
        obj |= {"roleRef": {"kind": kind if key.namespace else "ClusterRole", "name": name}, "subjects": found}
    store.put(collection, key, obj, expected=item.revision if item else 0)


def _naive(store, user, asked):
    for collection in (f"clusterrolebindings.{GROUP}", f"rolebindings.{GROUP}"):
        for key, item in store.collection(collection).entries():
            reference = item.obj["roleRef"]
            if key.namespace not in {"", asked.namespace} or not any(_is(user, one) for one in item.obj["subjects"]):
                continue
            is_cluster = reference["kind"] == "ClusterRole"
            where = f"clusterroles.{GROUP}" if is_cluster else f"roles.{GROUP}"
            role = store.collection(where).get(Key("" if is_cluster else key.namespace, reference["name"]))
            if role is not None and any(Rule.of(rule).allows(asked) for rule in role.obj["rules"]):
                return True
    return False


def _is(user, subject):
    if subject["kind"] == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return subject["name"] == user.name if subject["kind"] == "User" else subject["name"] in user.groups


def test_a_role_that_is_missing_grants_nothing_and_is_named():
    store = Store()
    rbac = Rbac(store)
    binding = ("ClusterRole", "gone", [{"kind": "User", "name": "a"}])
    _apply(store, "binding", Key("", "b"), binding)

    rules, missing = rbac.rules_of(User("a"), "")
    assert (rules, [str(one) for one in missing]) == ([], [f'clusterrole.{GROUP} "gone" not found'])
    assert rbac.decide(User("a"), QUESTIONS[0]) == (False, f'RBAC: clusterrole.{GROUP} "gone" not found')
