"""
Writes docs/metrics.md from the scrape of an operator that runs: `python hack/metrics_page.py`; `--check` only compares.

The operator runs with everything switched on, on an embedded control plane. Names, types and help texts are those of
the scrape; the names of labels are those of the collectors, because a metric without series shows none. A metric that
belongs to no section of the page is an error.
"""

from __future__ import annotations

import argparse
import re
import ssl
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
import anyio
from prometheus_client.parser import text_string_to_metric_families

from ktrain.cli import kubeflow, operating
from ktrain.cli.config import (
    CertManagement,
    Configuration,
    Health,
    JobSets,
    LeaderElection,
    Metrics,
    StatusServer,
    Webhook,
)
from ktrain.framework import system_env
from ktrain.framework.operator.operator import Operator
from ktrain.framework.telemetry.logging import configure
from ktrain.local.apiserver.front.certificates import self_signed
from ktrain.local.plane import ControlPlane
from ktrain.testing.programs import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

PAGE: Final = Path(__file__).parent.parent / "docs" / "metrics.md"
ANY_PORT: Final = f"{LOOPBACK}:0"
NAMESPACE: Final = "default"


class Entry(NamedTuple):
    """One metric."""

    name: str
    """As queries name it, without the suffixes of a histogram."""
    kind: str
    labels: tuple[str, ...]
    text: str


class Section(NamedTuple):
    """Metrics that belong together."""

    title: str
    names: str
    """A regular expression."""
    where: str


SECTIONS: Final = (
    Section(
        "TrainJobs",
        "ktrain_(trainjob|gang|snapshots)",
        "The leader has these series; a replica that does not lead has none of them, so a sum over all replicas is"
        " right. 100 namespaces, 100 runtimes, 1,000 pairs of them and 50 reasons have series of their own; the others"
        " share the label value `other`. A namespace or runtime that no TrainJob has any more makes room for a new one."
        " A milestone is observed once for each TrainJob, when the operator sees it: `jobset` (the JobSet exists; not"
        " observed if something else than a defect of ktrain or a plugin kept the TrainJob from having one: a runtime"
        " that is missing, a quota, a name that is taken), `admitted` (neither the TrainJob nor its JobSet is"
        " suspended), `first_pod` (a Job of it has pods), `running` (all nodes are ready), `ended`. After a restart of"
        " the operator, milestones that were passed before are not observed again, but a TrainJob that is suspended"
        " then begins anew. The phase is `status.state`; `Unknown` is a TrainJob whose status has none yet, or the"
        " feature gate TrainJobState is off.",
    ),
    Section("Plugins", "ktrain_plugin_", "Every replica: hooks are called by webhooks and by reconciles."),
    Section(
        "Controllers",
        "controller_runtime_(?!webhook|conversion)|ktrain_(stuck|events_lost|own_write)",
        "Every replica has these series; only the leader's change. The histogram has the reason of the reconcile and"
        " its trace as exemplar.",
    ),
    Section("Work queues", "workqueue_", "Every replica; only the leader's change. At most 25 priorities are shown."),
    Section("Caches", "ktrain_informer_", "Every replica, for each kind that it watches."),
    Section(
        "Calls of the API server", "rest_client_", "Every replica. The code `<error>` is a request without answer."
    ),
    Section("Leader election", "leader_election_", "Every replica, with `leaderElection.leaderElect`."),
    Section(
        "Webhooks and certificates",
        "controller_runtime_(webhook|conversion)|certwatcher_|ktrain_webhook_",
        "Every replica, with `webhook.enable`. The metrics of self-managed certificates come with"
        " `certManagement.enable`, `certwatcher_*` with certificates from a directory.",
    ),
    Section("JobSets", "jobset_", "With `jobset.enable`, under JobSet's names. They name at most 200 JobSets."),
    Section("Progress reports", "ktrain_trainer_status_", "With the feature gate TrainJobStatus: the status server."),
    Section("Events", "ktrain_events_(written|dropped)", "Every replica."),
    Section("The process", "process_|python_|ktrain_event_loop_|ktrain_build_info", "Every replica."),
)
HEAD: Final = """\
# Metrics

<!-- Written by hack/metrics_page.py from a scrape of a running operator. Do not edit. -->

`ktrain operator` serves these metrics on `metrics.bindAddress` at `/metrics`, as Prometheus text or, for a scraper that
asks for it, as OpenMetrics with exemplars. `ktrain up` has them, too, at `/metrics` of its API server
([Local](local.md#metrics)), but for those of webhooks, certificates and the election. Names are those of
controller-runtime, client-go and JobSet where they have one. Durations are in seconds, sizes in bytes. Counters and
histograms have no `_created` series.

A histogram `NAME` has the series `NAME_bucket`, `NAME_sum` and `NAME_count`.
"""


def configuration(directory: Path, status_port: int) -> Configuration:
    """Return a configuration with everything on that has metrics."""
    return Configuration(
        webhook=Webhook(enable=True, host=LOOPBACK, port=0, cert_dir=str(directory)),
        leader_election=LeaderElection(leader_elect=True, resource_namespace=NAMESPACE),
        metrics=Metrics(bind_address=ANY_PORT, secure_serving=True, cert_dir=str(directory)),
        health=Health(health_probe_bind_address=ANY_PORT),
        jobset=JobSets(enable=True),
        cert_management=CertManagement(enable=True),
        status_server=StatusServer(port=status_port),
        feature_gates={"TrainJobStatus": True},
    )


async def observe(directory: Path) -> tuple[str, list[Entry]]:
    """Run an operator and scrape it; returns the scrape, and its metrics in the order of their names."""
    identity = self_signed(LOOPBACK, now=datetime.now(UTC))
    (directory / "tls.crt").write_bytes(identity.certificate)
    (directory / "tls.key").write_bytes(identity.key)
    file, (port,) = directory / "kubeconfig", free_ports(1)
    asked, logs = configuration(directory, port), kubeflow.Logs(level="error")
    plane = ControlPlane(system_env(), pods="off", jobsets=False, listen=(LOOPBACK, 0), kubeconfig_file=file)
    async with (
        plane.running(),
        Operator("metrics", operating.settings_of(asked, str(file), logs)) as operator,
        anyio.create_task_group() as tasks,
    ):
        await tasks.start(partial(operator.run, setup=partial(operating.set_up, operator, asked)))
        server, registry = operator.servers.metrics, operator.metrics.registry
        if server is None or registry is None:
            raise SystemExit("the operator serves no metrics")
        text = await scrape(f"https://{LOOPBACK}:{server.port}/metrics", identity.certificate)
        operator.stop()
    return text, list(entries(text, labels(registry)))


async def scrape(url: str, certificate: bytes) -> str:
    """Return what a Prometheus gets."""
    context = ssl.create_default_context(cadata=certificate.decode())
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
        answer.raise_for_status()
        return await answer.text()


def labels(registry: CollectorRegistry) -> dict[str, tuple[str, ...]]:
    """Return the names of labels by metric. prometheus_client has no public way to learn them without a series."""
    found: dict[str, tuple[str, ...]] = {}
    for collector in list(registry._collector_to_names):  # noqa: SLF001 -- see above
        for metric in collector.collect():
            names = getattr(collector, "_labelnames", None) or getattr(metric, "_labelnames", ())
            found[metric.name] = tuple(names) or tuple(metric.samples[0].labels if metric.samples else ())
    return found


def entries(text: str, labels: dict[str, tuple[str, ...]]) -> Iterator[Entry]:
    """Yield the metrics of a scrape."""
    for family in sorted(text_string_to_metric_families(text), key=lambda one: one.name):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        own = tuple(one for one in labels[family.name] if one not in ("le", "quantile"))
        yield Entry(name, family.type, own, family.documentation)


def page(found: list[Entry]) -> str:
    """Return the page. SystemExit if a metric belongs to no section."""
    left, parts = list(found), [HEAD]
    for section in SECTIONS:
        own = [one for one in left if re.match(section.names, one.name)]
        left = [one for one in left if one not in own]
        rows = "".join(
            f"| `{one.name}` | {one.kind} | {', '.join(one.labels) or ' '} | {one.text} |\n".replace("|  |", "| |")
            for one in own
        )
        parts.append(
            f"\n## {section.title}\n\n{section.where}\n\n| metric | type | labels | |\n|---|---|---|---|\n{rows}"
        )
    if left:
        raise SystemExit(f"no section of the page is for {', '.join(one.name for one in left)}")
    return "".join(parts)


def main() -> int:
    """Write the page, or compare it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    parser.add_argument("--scrape", type=Path, metavar="FILE", help="write the scrape here, too")
    options = parser.parse_args()
    configure(level="error")
    with tempfile.TemporaryDirectory() as directory:
        scraped, found = anyio.run(observe, Path(directory))
    if options.scrape:
        options.scrape.write_text(scraped)
    text = page(found)
    if options.check:
        if text != PAGE.read_text():
            sys.stderr.write("stale: docs/metrics.md; run python hack/metrics_page.py\n")
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
