"""The definitions (CRDs) of our kinds and of JobSets: served, stored, and with the fields that ktrain writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ktrain.api import assets
from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS
from ktrain.cli import readiness
from ktrain.framework.errors import Forbidden

from .finding import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ktrain.api.meta import Json

    from .cluster import Cluster
    from .finding import Finding

OPTIONAL: Final = "optimizationjobs.trainer.kubeflow.org"
"""Kubeflow's SDK lists them; no controller of ours reads them."""
SHOWN: Final = 3
"""Missing fields that a finding names."""
_INSTALL: Final = "install the chart with crds.install, or apply config/crd"

_report: Final = Reporter("definitions")


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Compare each definition with the one that this release ships; an operator's needs are those of its readiness."""
    absent: list[str] = []
    for shipped in assets.crds():
        name = shipped["metadata"]["name"]
        try:
            stored = await cluster.find(CUSTOM_RESOURCE_DEFINITIONS, name)
        except Forbidden:
            if await _is_served(cluster, shipped):
                yield _report.skipped(name, "its kind is served; the definition itself may not be read by this user")
            else:
                absent.append(name)
            continue
        if stored is None:
            absent.append(name)
            continue
        problems = list(_problems(shipped, stored))
        for problem in problems:
            yield problem
        if not problems:
            versions = ", ".join(one["name"] for one in stored["spec"]["versions"] if one["served"])
            yield _report.ok(name, f"serves {versions}")
    if OPTIONAL in absent and cluster.is_installed:
        yield _report.warning(OPTIONAL, "is not installed: Kubeflow's SDK cannot list OptimizationJobs", _INSTALL)
    if not cluster.is_installed:
        for name in absent:
            yield _report.ok(name, "is not installed; the chart brings it")
        return
    with_controller = cluster.installation.configuration.jobset.enable
    for finding in await readiness.kinds(cluster.client, with_jobset_controller=with_controller):
        yield replace(finding, check=_report.check)


async def _is_served(cluster: Cluster, shipped: Json) -> bool:
    """Whether the kind is served, which every user may ask."""
    spec = shipped["spec"]
    return spec["names"]["plural"] in await cluster.served(spec["group"], spec["versions"][0]["name"])


def _problems(shipped: Json, stored: Json) -> Iterator[Finding]:
    name = shipped["metadata"]["name"]
    conditions = {one["type"]: one for one in (stored.get("status") or {}).get("conditions") or ()}
    for kind in ("Established", "NamesAccepted"):
        condition = conditions.get(kind) or {}
        if condition.get("status") != "True":
            told = condition.get("message") or "no word from the API server yet"
            yield _report.error(
                name, f"{kind} is not true: {told}", "see kubectl describe crd, and correct what it says"
            )
    ours = {one["name"]: one for one in shipped["spec"]["versions"]}
    found = {one["name"]: one for one in stored["spec"]["versions"]}
    for version, wanted in ours.items():
        served = found.get(version)
        if served is None or not served["served"]:
            others = ", ".join(sorted(found)) or "none"
            yield _report.error(name, f"does not serve {version}, which ktrain reads (there are: {others})", _INSTALL)
            continue
        if missing := list(_missing(_schema(wanted), _schema(served))):
            more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
            what = f"{version} lacks fields of this release: {', '.join(missing[:SHOWN])}{more}"
            yield _report.warning(name, f"{what}; the API server drops them", _INSTALL)
    old = [one for one in (stored.get("status") or {}).get("storedVersions") or () if one not in ours]
    if old:
        what = f"objects may still be stored as {', '.join(old)}, which this release's definition does not have"
        fix = f"write them again as {next(iter(ours))} (kubectl get -A -o yaml | kubectl replace -f -), then take the"
        yield _report.error(name, what, f"{fix} old version out of status.storedVersions")


def _schema(version: Json) -> Json:
    schema: Json = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _missing(wanted: Json, found: Json, path: str = "") -> Iterator[str]:
    """Yield the highest fields of one schema that the other does not have; a schema that keeps all fields has all."""
    if found.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, schema in (wanted.get("properties") or {}).items():
        where = f"{path}.{name}" if path else name
        other = (found.get("properties") or {}).get(name)
        if other is None:
            yield where
        else:
            yield from _missing(schema, other, where)
    if "items" in wanted and "items" in found:
        yield from _missing(wanted["items"], found["items"], f"{path}[]")
