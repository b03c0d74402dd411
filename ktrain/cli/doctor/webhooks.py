"""Admission webhooks: registered, reachable, with a certificate that the API server trusts; and proven by a dry run."""

from __future__ import annotations

import base64
import binascii
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ktrain.api.core import SECRETS, SERVICES
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.cli.certificates import JOBSET_WEBHOOKS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ktrain.framework.errors import ApiError, Forbidden, NotFound
from ktrain.framework.webhook import authority
from ktrain.framework.webhook.injection import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS

from .cluster import ENDPOINT_SLICES
from .finding import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ktrain.api.meta import Json

    from .cluster import Cluster
    from .finding import Finding

SOON: Final = timedelta(days=14)
"""Managed certificates are renewed with a third of their life left; one that ends this soon was not."""
PROBE: Final = "ktrain-doctor"

_report: Final = Reporter("webhooks")


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Check each registration and the Service behind it, then create a TrainJob as a dry run."""
    configuration = cluster.installation.configuration
    expected = cluster.is_installed and configuration.webhook.enable
    jobsets = (JOBSET_WEBHOOKS,) if configuration.jobset.enable else ()
    for resource, names in (
        (MUTATING_WEBHOOK_CONFIGURATIONS, (MUTATING_WEBHOOKS, *jobsets)),
        (VALIDATING_WEBHOOK_CONFIGURATIONS, (VALIDATING_WEBHOOKS, *jobsets)),
    ):
        registrations = await cluster.some(resource)
        for name in names:
            found = [one for one in registrations if _is_called(one, name)]
            if expected and not found:
                what = "is missing: the operator serves webhooks, and the API server does not call them"
                fix = "install it (chart: webhook.enabled), or set webhook.enable: false"
                yield _report.warning(f"{resource.kind} {name}", what, fix)
            for registration in found:
                subject = f"{resource.kind} {registration['metadata']['name']}"
                problems = [one async for one in _problems(cluster, subject, registration)]
                for problem in problems:
                    yield problem
                if not problems:
                    yield _report.ok(subject, f"{len(registration.get('webhooks') or ())} webhooks are reachable")
    if expected:
        yield await _dry_run(cluster)
    elif cluster.is_installed:
        yield _report.ok("webhooks", "are off: the reconciler checks TrainJobs, users see refusals in their status")


def _is_called(registration: Json, name: str) -> bool:
    """Whether a configuration has this name; in the namespaced mode the release's namespace and name follow it."""
    found: str = registration["metadata"]["name"]
    return found == name or found.startswith(f"{name}.")


async def _problems(cluster: Cluster, subject: str, registration: Json) -> AsyncIterator[Finding]:
    configs = [entry.get("clientConfig") or {} for entry in registration.get("webhooks") or ()]
    if not configs:
        yield _report.warning(subject, "has no webhooks: the API server calls nobody", "install the chart's again")
    services = {(one["service"]["namespace"], one["service"]["name"]) for one in configs if one.get("service")}
    for namespace, name in sorted(services):
        where = f"Service {namespace}/{name}"
        if await cluster.find(SERVICES, name, namespace) is None:
            what = f"calls {where}, which does not exist: the API server refuses every TrainJob"
            yield _report.error(subject, what, "install the operator, or delete this configuration if it is left over")
            continue
        slices = await cluster.some(ENDPOINT_SLICES, namespace, labels=f"kubernetes.io/service-name={name}")
        if not any(map(_is_ready, (one for each in slices for one in each.get("endpoints") or ()))):
            what = f"calls {where}, which has no ready endpoint: the API server refuses every TrainJob"
            yield _report.error(subject, what, "see the check `operator`: no replica is ready")
    # One that is called by URL may have a certificate that every API server trusts.
    bundles = {str(one.get("caBundle") or "") for one in configs if one.get("service") or one.get("caBundle")}
    if "" in bundles:
        what = "has a webhook without caBundle: the API server cannot verify the operator"
        fix = "set certManagement.enable: true, or certManager.enabled in the chart, or write the CA there"
        if cluster.is_installed and cluster.installation.configuration.cert_management.enable:
            fix = "wait a minute, in which the operator writes it; then see its log: webhook.injection_failed"
        yield _report.error(subject, what, fix)
    for bundle in bundles - {""}:
        if problem := _expiry(cluster, bundle):
            yield _report.error(subject, problem, "see docs/operate.md, certificates")
    async for finding in _served(cluster, subject, bundles - {""}):
        yield finding


def _is_ready(endpoint: Json) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False and bool(endpoint.get("addresses"))


def _expiry(cluster: Cluster, bundle: str) -> str:
    try:
        ends = [authority.validity(one).ends for one in authority.split_bundle(base64.b64decode(bundle))]
    except (ValueError, binascii.Error) as error:
        return f"caBundle holds no certificates: {error}"
    if not ends:
        return "caBundle holds no certificate"
    if max(ends) < cluster.now():
        return f"caBundle expired at {max(ends):%Y-%m-%d %H:%M} UTC"
    return ""


async def _served(cluster: Cluster, subject: str, bundles: set[str]) -> AsyncIterator[Finding]:
    """Compare the Secret that the operator manages with the CAs of a registration."""
    management = cluster.installation.configuration.cert_management
    if not (cluster.is_installed and management.enable and bundles):
        return
    name = management.webhook_secret_name or management.service
    where = f"Secret {cluster.installation.namespace}/{name}"
    try:
        secret = await cluster.find(SECRETS, name, cluster.installation.namespace)
    except Forbidden:
        yield _report.skipped(where, "may not be read by this user, so its certificate is not compared")
        return
    pem = base64.b64decode(((secret or {}).get("data") or {}).get("tls.crt") or "")
    if not pem:
        yield _report.error(where, "holds no certificate", "see the operator's log: webhook.certificate_*")
        return
    try:
        ends = authority.validity(pem).ends
    except ValueError as error:
        yield _report.error(
            where, f"tls.crt is no certificate: {error}", "delete its data: the operator writes it anew"
        )
        return
    if ends < cluster.now() + SOON:
        yield _report.error(where, f"its certificate ends at {ends:%Y-%m-%d %H:%M} UTC", "see the operator's log")
    for bundle in bundles:
        if not authority.is_signed(pem, base64.b64decode(bundle)):
            what = f"its caBundle does not hold the CA of {where}: the API server refuses every TrainJob"
            yield _report.error(subject, what, "see the operator's log: webhook.injection_failed, and its rights")


async def _dry_run(cluster: Cluster) -> Finding:
    """Create a TrainJob of a runtime that does not exist, as a dry run: the webhook has to refuse it."""
    namespace = next(iter(cluster.installation.configuration.watch_namespaces), "default")
    body = {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": PROBE, "namespace": namespace},
        "spec": {"runtimeRef": {"name": PROBE}},
    }
    subject = "dry run"
    try:
        await cluster.client.raw("POST", TRAIN_JOBS.path(namespace), query=[("dryRun", "All")], body=body)
    except NotFound:
        return _report.error(subject, "TrainJobs are not served", "see the check `definitions`")
    except ApiError as error:
        said = error.status.message
        if VALIDATING_WEBHOOKS.removeprefix("validator.") in said and "denied the request" in said:
            return _report.ok(subject, "the API server asks the operator about new TrainJobs")
        if "failed calling webhook" in said:
            return _report.error(subject, said, "see the findings above, and network policies to the webhook's port")
        if isinstance(error, Forbidden):
            return _report.skipped(subject, "this user may not create TrainJobs")
        return _report.warning(
            subject, f"an unexpected refusal: {said}", "see whether another webhook or policy refuses it"
        )
    what = "the API server took a TrainJob without asking the operator"
    return _report.warning(subject, what, "see the rules and selectors of the webhook configurations")
