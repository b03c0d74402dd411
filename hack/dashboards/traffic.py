"""The part of the dashboard of the operator about its traffic: watches, requests to the API server and webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders.dashboard import Row
from panels import AMBER, RED, Query, Steps, graph, quantiles

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard
    from grafana_foundation_sdk.builders.timeseries import Panel

REPLICAS: Final = 'job=~"$job", instance=~"$instance"'


def rate(metric: str, by: str, selector: str = REPLICAS) -> str:
    """Return the query for the rate of a counter, summed by labels."""
    return f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))"


def rates(title: str, description: str, metric: str, by: str, *, selector: str = REPLICAS, span: int = 8) -> Panel:
    """A graph of the rate of a counter, a series for each value of the labels `by`."""
    legend = " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(","))
    return graph(title, description, Query(rate(metric, by, selector), legend), unit="cps", span=span)


def _informers(title: str, description: str, what: str, *, unit: str = "short", line_at: Steps = ()) -> Panel:
    """A graph of a metric of informers, by resource and scope."""
    query = Query(f"max by (resource, scope) (ktrain_informer_{what}{{{REPLICAS}}})", "{{resource}} {{scope}}")
    return graph(title, description, query, unit=unit, line_at=line_at)


def watches(made: Dashboard) -> None:
    """Add the panels of caches and watches."""
    made.with_row(Row("Caches and watches"))
    made.with_panel(_informers("Objects", "Objects that each cache holds, in the largest replica.", "objects"))
    made.with_panel(_informers("Memory", "Memory of these objects, estimated from samples.", "bytes", unit="bytes"))
    made.with_panel(
        _informers(
            "Since the API server was heard",
            "Time since the last event or bookmark of each watch. The API server sends a bookmark about every minute,"
            " so 5 minutes are a watch that is stuck.",
            "last_event_age_seconds",
            unit="s",
            line_at=((300, RED),),
        )
    )
    made.with_panel(
        graph(
            "Watches that ended",
            "Watches that went on from their last version, and whole lists after the first, by reason. `ended` is"
            " normal every few minutes; the others are not.",
            Query(rate("ktrain_informer_watch_restarts_total", "reason"), "watch {{reason}}"),
            Query(rate("ktrain_informer_relists_total", "reason"), "list {{reason}}"),
            unit="cps",
        )
    )
    made.with_panel(
        graph(
            "Caches that are not complete",
            "Caches without their first list, and kinds that the API server does not serve.",
            Query(
                f"count by (resource) (ktrain_informer_synced{{{REPLICAS}}} == 0) or vector(0)",
                "{{resource}} not synced",
            ),
            Query(f"sum by (resource) (ktrain_informer_missing{{{REPLICAS}}})", "{{resource}} missing"),
            line_at=((1, RED),),
        )
    )
    made.with_panel(
        graph(
            "Lists",
            "How long whole lists took since the start, 99th percentile.",
            Query(
                "histogram_quantile(0.99, sum by (le, resource)"
                f" (ktrain_informer_list_duration_seconds_bucket{{{REPLICAS}}}))",
                "{{resource}}",
            ),
            unit="s",
        )
    )


def requests(made: Dashboard) -> None:
    """Add the panels of requests to the API server."""
    made.with_row(Row("Requests to the API server"))
    made.with_panel(
        rates(
            "By code", "Attempts by the code of the answer; `<error>`: no answer.", "rest_client_requests_total", "code"
        )
    )
    made.with_panel(rates("By method", "Attempts by method.", "rest_client_requests_total", "method"))
    made.with_panel(
        graph(
            "Retries, and waits for a turn",
            "Attempts after the first, per second and by code, and seconds per second that calls waited for a turn.",
            Query(f"{rate('rest_client_request_retries_total', 'code')} or vector(0)", "retries {{code}}"),
            Query(f"sum(rate(rest_client_rate_limiter_duration_seconds_sum{{{REPLICAS}}}[$__rate_interval]))", "waits"),
        )
    )


def webhooks(made: Dashboard) -> None:
    """Add the panels of webhooks and certificates."""
    made.with_row(Row("Webhooks and certificates"))
    made.with_panel(
        graph(
            "Requests by code",
            "Answers of each webhook by HTTP code. 200 includes refusals of bad objects; others are failures of the"
            " webhook.",
            Query(rate("controller_runtime_webhook_requests_total", "webhook, code"), "{{code}} {{webhook}}"),
            unit="cps",
        )
    )
    made.with_panel(
        graph(
            "Latency",
            "How long webhooks take to answer. The API server gives up after the timeout of the configuration.",
            *quantiles("controller_runtime_webhook_latency_seconds", "webhook", selector=REPLICAS)[1:],
            unit="s",
            line_at=((1, AMBER),),
        )
    )
    made.with_panel(
        graph(
            "Under way and failing",
            "Requests under way; per second: panics of handlers, and CA bundles that could not be written.",
            Query(f"sum(controller_runtime_webhook_requests_in_flight{{{REPLICAS}}})", "in flight"),
            Query(f"sum(rate(controller_runtime_webhook_panics_total{{{REPLICAS}}}[$__rate_interval]))", "panics"),
            Query(
                f"sum(rate(ktrain_webhook_ca_injection_errors_total{{{REPLICAS}}}[$__rate_interval]))", "CA not written"
            ),
        )
    )
