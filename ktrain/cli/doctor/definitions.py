"""The definitions (CRDs) of our kinds and of JobSets: served, stored, and with the fields that ktrain writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import assets
from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS
from ktrain.api.jobset import GROUP as JOBSET_GROUP
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
    """Compare each definition with the one that this release ships."""
    for shipped in assets.crds():
        name = shipped["metadata"]["name"]
        try:
            stored = await cluster.find(CUSTOM_RESOURCE_DEFINITIONS, name)
        except Forbidden:
            yield await _by_discovery(cluster, shipped)
            continue
        if stored is None:
            yield _absent(cluster, shipped)
            continue
        problems = list(_problems(shipped, stored))
        for problem in problems:
            yield problem
        if not problems:
            versions = ", ".join(one["name"] for one in stored["spec"]["versions"] if one["served"])
            yield _report.ok(name, f"serves {versions}")


async def _by_discovery(cluster: Cluster, shipped: Json) -> Finding:
    """Return whether the kind is served, which every user may ask."""
    name, spec = shipped["metadata"]["name"], shipped["spec"]
    version = spec["versions"][0]["name"]
    if spec["names"]["plural"] in await cluster.served(spec["group"], version):
        return _report.skipped(name, f"{version} is served; the definition itself may not be read by this user")
    return _absent(cluster, shipped)


def _absent(cluster: Cluster, shipped: Json) -> Finding:
    name = shipped["metadata"]["name"]
    if name == OPTIONAL:
        return _report.warning(name, "is not installed; Kubeflow's SDK cannot list OptimizationJobs", _INSTALL)
    if cluster.is_installed:
        what = "JobSets" if shipped["spec"]["group"] == JOBSET_GROUP else "its objects"
        advice = "set jobset.mode=builtin, or install the JobSet operator" if what == "JobSets" else _INSTALL
        return _report.error(name, f"is not installed: the operator waits for it, and {what} cannot exist", advice)
    return _report.ok(name, "is not installed; the chart brings it")


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
