"""The rights of the operator's account; before an installation, those of the user who wants to install."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.cli import readiness
from ktrain.cli import rights as declared
from ktrain.cli.plugin_choice import registry_of

from .finding import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.rbac import Right

    from .cluster import Cluster
    from .finding import Finding

REVIEWS: Final = "/apis/authorization.k8s.io/v1"
AT_ONCE: Final = 8
INSTALLS: Final = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("apps", "deployments"),
)
"""What `helm install` creates; without the cluster-scoped ones only the namespaced mode can be installed."""

_report: Final = Reporter("rights")


@dataclass(frozen=True, slots=True)
class Access:
    """One request that the API server is asked about."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    @property
    def attributes(self) -> Json:
        """`resourceAttributes` of an access review."""
        resource, _, subresource = self.resource.partition("/")
        found = {"group": self.group, "resource": resource, "subresource": subresource, "verb": self.verb}
        return {**found, "namespace": self.namespace, "name": self.name}


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Ask the API server what the operator's account may do, and report what it lacks."""
    if not cluster.is_installed:
        async for finding in _installer(cluster):
            yield finding
        return
    installation = cluster.installation
    if installation.problem:
        yield _report.skipped(installation.account, "the configuration cannot be read, so its needs are not known")
        return
    account = installation.account
    needed = declared.needed(installation.configuration, registry_of(installation.configuration))
    asked = [(right, access) for right in needed for access in _accesses(cluster, right)]
    allowed = await _review(cluster, account, [access for _, access in asked])
    unused = _unused(asked, allowed, installation.configuration.watch_namespaces)
    for finding in unused.values():
        yield finding
    lacking: dict[tuple[str, str, str], list[str]] = {}
    for (right, access), is_allowed in zip(asked, allowed, strict=True):
        is_unused = ("plugin", right.feature) in unused or ("namespace", access.namespace) in unused
        if not (is_allowed or is_unused):
            where = f" in {access.namespace}" if access.namespace else ""
            kind = f"{access.resource}.{access.group}" if access.group else access.resource
            lacking.setdefault((kind, where, right.rule.reason), []).append(access.verb)
    for (kind, where, reason), verbs in lacking.items():
        what = f"{account} may not {', '.join(dict.fromkeys(verbs))} {kind}{where}, which it needs: {reason}"
        yield _report.error(
            kind, what, "upgrade the chart's release (its roles are generated), or extend your own role"
        )
    if not lacking:
        yield _report.ok(account, f"may do the {sum(allowed)} things that this configuration needs")


def _unused(
    asked: list[tuple[Right, Access]], allowed: list[bool], namespaces: Sequence[str]
) -> dict[tuple[str, str], Finding]:
    """Return what the operator does without because nothing of it is allowed: plugins and namespaces."""
    found: dict[tuple[str, str], Finding] = {}
    possible = {right.feature for (right, _), one in zip(asked, allowed, strict=True) if one}
    for feature in dict.fromkeys(right.feature for right, _ in asked):
        if feature.startswith(declared.PLUGIN) and feature not in possible:
            text = "nothing of what it needs is allowed (rbac.excludePlugins), so TrainJobs that need it do not start"
            found["plugin", feature] = _report.ok(f"plugin {feature.removeprefix(declared.PLUGIN)}", text)
    readable = {access.namespace for (_, access), one in zip(asked, allowed, strict=True) if one}
    for namespace in namespaces if readable else ():
        if namespace not in readable:
            fix = "give the Role there back (helm upgrade), or take the namespace out of watchNamespaces"
            found["namespace", namespace] = _report.warning(
                f"namespace {namespace}", "nothing is allowed there: it is left out", fix
            )
    return found


def _accesses(cluster: Cluster, right: Right) -> Iterable[Access]:
    rule = right.rule
    places = tuple(cluster.installation.configuration.watch_namespaces) or ("",)
    if right.scope != "watched":
        election = cluster.installation.configuration.leader_election.resource_namespace
        own = (right.feature == "leaderElection" and election) or cluster.installation.namespace
        places = (own if right.scope == "own" else "",)
    names = rule.resource_names or ("",)
    for parts in product(rule.api_groups, rule.resources, rule.verbs, places, names):
        yield Access(*parts)


async def _installer(cluster: Cluster) -> AsyncIterator[Finding]:
    accesses = [Access(group, resource, "create") for group, resource in INSTALLS]
    allowed = await _review(cluster, "", accesses)
    refused = [one.resource for one, is_allowed in zip(accesses, allowed, strict=True) if not is_allowed]
    if refused:
        what = f"this user may not create {', '.join(refused)}, which the chart installs"
        fix = "install as an administrator; the namespaced mode (watchNamespaces, crds.install=false) needs less"
        yield _report.warning("installation", what, fix)
    else:
        yield _report.ok("installation", "this user may create what the chart installs")


async def _review(cluster: Cluster, account: str, accesses: list[Access]) -> list[bool]:
    """Return for each request whether the account may make it; an empty account is the one that asks."""
    turns = asyncio.Semaphore(AT_ONCE)
    kind = (
        "SubjectAccessReview"
        if account and account != await readiness.identity(cluster.client)
        else "SelfSubjectAccessReview"
    )
    subject = _subject(account) if kind == "SubjectAccessReview" else {}

    async def ask(access: Access) -> bool:
        spec = {"resourceAttributes": access.attributes, **subject}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        async with turns:
            answer = await cluster.client.raw("POST", f"{REVIEWS}/{kind.lower()}s", body=body)
        return bool(msgspec.json.decode(answer.body)["status"].get("allowed"))

    async with asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(ask(access)) for access in accesses]
    return [answer.result() for answer in answers]


def _subject(account: str) -> Json:
    """Return user and groups of a service account, as the API server knows it."""
    _, _, namespace, _ = account.split(":")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {"user": account, "groups": groups}
