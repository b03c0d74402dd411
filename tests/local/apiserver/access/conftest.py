"""Users with the rights that a test gives them."""

from __future__ import annotations

import pytest

from ktrain.local.apiserver.requests import User

RBAC = "rbac.authorization.k8s.io/v1"


class Access:
    """Roles, bindings and users in the words of a test."""

    def __init__(self, server, api):
        self.server = server
        self.api = api

    async def grant(self, user, *rules, name="granted", namespace="default"):
        """Give a user a role in one namespace, or everywhere if the namespace is empty."""
        cluster = not namespace
        kind = "ClusterRole" if cluster else "Role"
        await self.create(f"{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)}, cluster=cluster)
        await self.bind(name, kind, {"kind": "User", "name": user}, cluster=cluster)

    async def bind(self, role, kind, *subjects, name="", cluster=False):
        reference = {"apiGroup": RBAC.partition("/")[0], "kind": kind, "name": role}
        body = {"metadata": {"name": name or role}, "roleRef": reference, "subjects": list(subjects)}
        await self.create("clusterrolebindings" if cluster else "rolebindings", body, cluster=cluster)

    async def create(self, plural, body, *, cluster=False):
        answer = await self.api.send("POST", self.api.path(plural, api=RBAC, cluster=cluster), body)
        assert answer.status == 201, answer
        return answer.body

    def client(self, user, *groups, **headers):
        """A user with no rights but those given; `headers` go with every request, underscores for dashes."""
        who = user if isinstance(user, User) else User(user, groups or ("system:authenticated",))
        return type(self.api)(_WithHeaders(self.server.transport(who), headers))

    async def as_user(self, user, method, path, body=None, groups=(), **headers):
        """Send one request; returns the whole answer."""
        return await self.client(user, *groups, **headers).send(method, path, body)

    @staticmethod
    def rule(verbs, resources, *, group="", names=None):
        found = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
        return found if names is None else {**found, "resourceNames": names.split()}


class _WithHeaders:
    """A transport that adds headers to every request."""

    def __init__(self, transport, headers):
        self._transport = transport
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def request(self, method, path, *, query=(), headers=None, body=None):
        return await self._transport.request(method, path, query=query, headers={**self._headers, **headers}, body=body)


@pytest.fixture
def access(server, api):
    return Access(server, api)
