"""
The rights of `ktrain operator`: all that its parts and plugins declare, and those that one configuration needs.

The roles of the chart and of `config/` are rendered from here (`hack/manifests`), and `ktrain doctor` asks the API
server for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.rbac import Right
from ktrain.controllers import jobset, runtimes, trainjob
from ktrain.controllers.statusserver.rights import RIGHTS as STATUS_SERVER
from ktrain.framework.election import writes as election
from ktrain.framework.serving.authorization import RIGHTS as METRICS_AUTH

from . import certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ktrain.api.rbac import Rule, Scope
    from ktrain.pipeline import Registry

    from .config import Configuration

CERT_MANAGEMENT: Final = "certManagement"
JOBSET_CERTIFICATES: Final = "jobsetCertificates"
CLUSTER_WIDE: Final = frozenset({CERT_MANAGEMENT, JOBSET_CERTIFICATES, "statusServer", "metricsAuth"})
"""Features that do not work without a right in the whole cluster. The others do without what they cannot read."""
PLUGIN: Final = "plugin:"
"""Features that begin so are plugins, by their name."""
FEATURES_OF_PLUGINS: Final = {"JobSet": "", "TrainJobStatus": "statusServer", "Workload": "genericWorkload"}
"""Our own plugins that no feature, or another one than their name, switches on."""


def all_rights(registry: Registry, secrets: Sequence[str], lease: str) -> tuple[Right, ...]:
    """Return the rights of every feature, with managed certificates in Secrets of these names, and of this Lease."""
    found = [
        *trainjob.RIGHTS,
        *runtimes.RIGHTS,
        *_of_plugins(registry),
        *(one.for_feature("sharedSnapshots") for one in trainjob.SHARED_SNAPSHOTS),
        *(one.for_feature("leaderElection") for one in election.rights(lease)),
        *(one.for_feature(CERT_MANAGEMENT) for one in certificates.rights(secrets)),
        *(one.for_feature(JOBSET_CERTIFICATES) for one in certificates.rights_of_jobsets()),
        *(one.for_feature("statusServer") for one in STATUS_SERVER),
        *(one.for_feature("metricsAuth") for one in METRICS_AUTH),
        *(one.for_feature("jobset") for one in jobset.RIGHTS),
    ]
    return tuple(dict.fromkeys(found))


def needed(configuration: Configuration, registry: Registry) -> tuple[Right, ...]:
    """
    Return the rights that an operator with this configuration and these plugins uses.

    With `watchNamespaces` it uses rights of scope `cluster` only for servers and certificates that are switched on.
    """
    management = configuration.cert_management
    features = {
        "": True,
        "sharedSnapshots": configuration.snapshots == "shared",
        "leaderElection": configuration.leader_election.leader_elect,
        "statusServer": configuration.takes_reports,
        "metricsAuth": configuration.metrics.authorized,
        "jobset": configuration.jobset.enable,
        "genericWorkload": configuration.has_native_gangs,
        CERT_MANAGEMENT: management.enable,
        JOBSET_CERTIFICATES: management.enable and configuration.jobset.enable,
    }
    secret = management.webhook_secret_name or management.service
    found = [
        right
        for right in all_rights(registry, (secret,), configuration.leader_election.resource_name)
        if features.get(right.feature, right.feature.startswith(PLUGIN))
    ]
    if configuration.watch_namespaces:
        found = [right for right in found if right.scope != "cluster" or right.feature in CLUSTER_WIDE]
    return tuple(found)


def _of_plugins(registry: Registry) -> Iterable[Right]:
    cluster_scoped = {
        (watch.resource.group, watch.resource.plural) for watch in registry.watches if not watch.resource.namespaced
    }
    for plugin in registry.plugins:
        feature = FEATURES_OF_PLUGINS.get(plugin.name, f"{PLUGIN}{plugin.name}")
        rules: tuple[Rule, ...] = getattr(plugin, "rbac", ())
        for rule in rules:
            kinds = {(group, plural) for group in rule.api_groups for plural in rule.resources}
            scope: Scope = "cluster" if kinds <= cluster_scoped else "watched"
            yield Right(scope, rule, feature)
