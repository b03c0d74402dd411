"""The dashboard for the operator itself: reconciles, queues, watches, requests, webhooks and plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders.dashboard import Row
from panels import AMBER, RED, Query, board, graph, listing, number, quantiles, variable
from traffic import REPLICAS, rate, rates, requests, watches, webhooks

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

CONTROLLERS: Final = f'{REPLICAS}, controller=~"$controller"'


def controllers() -> Dashboard:
    """Return the dashboard."""
    variables = [
        variable(
            "job",
            "Job",
            "label_values(ktrain_build_info, job)",
            "Prometheus' scrape jobs that have operators of ktrain.",
        ),
        variable(
            "instance",
            "Replica",
            'label_values(ktrain_build_info{job=~"$job"}, instance)',
            "Replicas of the operator.",
        ),
        variable(
            "controller",
            "Controller",
            'label_values(controller_runtime_reconcile_total{job=~"$job"}, controller)',
            "Controllers of the operator.",
        ),
    ]
    made = board(
        "ktrain-controllers",
        "ktrain / Controller health",
        "The operator: reconciles, queues, watches, API requests, webhooks, plugins.",
        variables,
    )
    for part in (_replicas, _reconciles, _queues, watches, requests, webhooks, _plugins, _writes):
        part(made)
    return made


def _replicas(made: Dashboard) -> None:
    made.with_row(Row("Replicas"))
    made.with_panel(
        number("Replicas", "Replicas that Prometheus reaches.", Query(f"count(ktrain_build_info{{{REPLICAS}}})"))
    )
    made.with_panel(
        number(
            "Leaders",
            "Replicas that hold the Lease. 0: no TrainJob gets on. It stays 0 with leader election off.",
            Query(f"sum(leader_election_master_status{{{REPLICAS}}}) or vector(0)"),
        )
    )
    made.with_panel(
        number(
            "Reconcile errors",
            "Share of reconciles that end in an error, over 5 minutes.",
            Query(
                f"sum(rate(controller_runtime_reconcile_errors_total{{{CONTROLLERS}}}[5m]))"
                f" / (sum(rate(controller_runtime_reconcile_total{{{CONTROLLERS}}}[5m])) > 0)"
            ),
            unit="percentunit",
            from_=((0.05, AMBER), (0.2, RED)),
        )
    )
    made.with_panel(
        number(
            "Certificate ends in",
            "Time until the webhooks' certificate ends; the operator renews it well before.",
            Query(f"min(ktrain_webhook_certificate_expiry_timestamp_seconds{{{REPLICAS}}}) - time()"),
            unit="s",
        )
    )
    made.with_panel(
        number(
            "Event loop blocked",
            "Times within the last hour at which the event loop stood still for seconds: a slow plugin or machine.",
            Query(f"sum(increase(ktrain_event_loop_blocked_total{{{REPLICAS}}}[1h]))"),
            from_=((1, AMBER), (10, RED)),
        )
    )
    made.with_panel(
        number(
            "Stuck reconciles",
            "Reconciles of the last hour that ran for too long.",
            Query(f"sum(increase(ktrain_stuck_reconciles_total{{{CONTROLLERS}}}[1h]))"),
            from_=((1, RED),),
        )
    )
    made.with_panel(
        listing(
            "Versions",
            "Version of each replica. Two versions for longer than an upgrade takes are a rollout that is stuck.",
            Query(f"max by (instance, version, python) (ktrain_build_info{{{REPLICAS}}})"),
            names={"instance": "Replica", "version": "Version", "python": "Python"},
        )
    )
    made.with_panel(
        graph(
            "Leader",
            "1: the replica holds the Lease. Leadership that moves often: renewals fail or replicas restart.",
            Query(f"max by (instance, name) (leader_election_master_status{{{REPLICAS}}})", "{{instance}}"),
            span=12,
        )
    )


def _reconciles(made: Dashboard) -> None:
    made.with_row(Row("Reconciles"))
    made.with_panel(
        rates(
            "Reconciles by controller",
            "Finished reconciles per second.",
            "controller_runtime_reconcile_total",
            "controller",
            selector=CONTROLLERS,
        )
    )
    made.with_panel(
        rates(
            "Reconciles by result",
            "success; requeue_after: comes back at a time; error: tries again with back-off.",
            "controller_runtime_reconcile_total",
            "result",
            selector=CONTROLLERS,
        )
    )
    made.with_panel(
        graph(
            "Errors, panics and time-outs",
            "Reconciles that failed. Terminal errors wait for a change of the object.",
            *(
                Query(
                    rate(f"controller_runtime_{name}_total", "controller", CONTROLLERS), f"{{{{controller}}}} {legend}"
                )
                for name, legend in (
                    ("reconcile_errors", "error"),
                    ("terminal_reconcile_errors", "terminal"),
                    ("reconcile_panics", "panic"),
                    ("reconcile_timeouts", "time-out"),
                )
            ),
            Query(
                rate("ktrain_own_write_timeouts_total", "controller", CONTROLLERS), "{{controller}} own write not seen"
            ),
            unit="cps",
        )
    )
    made.with_panel(
        graph(
            "Duration",
            "How long reconciles take, with their API calls.",
            *quantiles("controller_runtime_reconcile_time_seconds", "controller", selector=CONTROLLERS),
            unit="s",
        )
    )
    made.with_panel(
        graph(
            "Workers",
            "Busy workers and how many there are: a controller that is always full is the bottleneck"
            " (controller.groupKindConcurrency).",
            Query(f"sum by (controller) (controller_runtime_active_workers{{{CONTROLLERS}}})", "{{controller}} busy"),
            Query(
                f"sum by (controller) (controller_runtime_max_concurrent_reconciles{{{CONTROLLERS}}})",
                "{{controller}} all",
            ),
        )
    )
    made.with_panel(
        graph(
            "Own writes",
            "How long keys wait until the cache shows what their last reconcile wrote.",
            *quantiles("ktrain_own_write_wait_seconds", "controller", selector=CONTROLLERS)[1:],
            unit="s",
        )
    )


def _queues(made: Dashboard) -> None:
    made.with_row(Row("Queues"))
    made.with_panel(
        graph(
            "Depth",
            "Keys that are ready and wait for a worker, by controller and priority. Standbys are left out: their keys"
            " wait until they lead.",
            Query(
                f"sum by (controller, priority) (workqueue_depth{{{CONTROLLERS}}} unless on (job, instance)"
                f" leader_election_master_status{{{REPLICAS}}} == 0)",
                "{{controller}} {{priority}}",
            ),
        )
    )
    made.with_panel(
        graph(
            "Wait in the queue",
            "How long keys waited for a worker. More than seconds: workers are too few or too slow.",
            *quantiles("workqueue_queue_duration_seconds", "controller", selector=CONTROLLERS),
            unit="s",
            line_at=((30, AMBER),),
        )
    )
    made.with_panel(
        graph(
            "Adds and retries",
            "Keys that became ready, and keys that were added with a delay (errors and requeues).",
            Query(rate("workqueue_adds_total", "controller", CONTROLLERS), "{{controller}} adds"),
            Query(rate("workqueue_retries_total", "controller", CONTROLLERS), "{{controller}} retries"),
            unit="cps",
        )
    )
    made.with_panel(
        graph(
            "Unfinished work",
            "Seconds that the reconciles under way run already: their sum, and the longest.",
            Query(f"sum by (controller) (workqueue_unfinished_work_seconds{{{CONTROLLERS}}})", "{{controller}} sum"),
            Query(
                f"max by (controller) (workqueue_longest_running_processor_seconds{{{CONTROLLERS}}})",
                "{{controller}} longest",
            ),
            unit="s",
            span=12,
            line_at=((60, AMBER),),
        )
    )
    made.with_panel(
        graph(
            "Events lost, objects not read",
            "Events of the API server on which a mapping or a predicate failed, and objects that could not be decoded.",
            Query(rate("ktrain_events_lost_total", "controller", CONTROLLERS), "event lost: {{controller}}"),
            Query(rate("ktrain_informer_bad_objects_total", "resource"), "not read: {{resource}}"),
            unit="cps",
            span=12,
        )
    )


def _plugins(made: Dashboard) -> None:
    made.with_row(Row("Plugins"))
    made.with_panel(
        graph(
            "Time by plugin",
            "Seconds per second that the hooks of each plugin take. Hooks block the event loop.",
            Query(rate("ktrain_plugin_call_duration_seconds_sum", "plugin"), "{{plugin}}"),
            unit="s",
            stacked=True,
        )
    )
    made.with_panel(
        graph(
            "Slowest hooks",
            "99th percentile of the hooks that take longest. From 50 ms on a call is logged as plugin.slow.",
            Query(
                "topk(10, histogram_quantile(0.99, sum by (le, plugin, hook)"
                f" (rate(ktrain_plugin_call_duration_seconds_bucket{{{REPLICAS}}}[$__rate_interval]))))",
                "{{plugin}} {{hook}}",
            ),
            unit="s",
            line_at=((0.05, AMBER), (1, RED)),
        )
    )
    made.with_panel(
        rates(
            "Failures",
            "raised: an exception; overran: no return within a second; answer: a value of the wrong type; conflict: it"
            " set what another plugin set differently.",
            "ktrain_plugin_call_failures_total",
            "plugin, hook, reason",
        )
    )


def _writes(made: Dashboard) -> None:
    made.with_row(Row("Events and snapshots"))
    made.with_panel(
        graph(
            "Events",
            "Kubernetes Events that were stored, and those that were not, by reason.",
            Query(f"sum(rate(ktrain_events_written_total{{{REPLICAS}}}[$__rate_interval]))", "written"),
            Query(rate("ktrain_events_dropped_total", "reason"), "dropped: {{reason}}"),
            unit="cps",
            span=12,
        )
    )
    made.with_panel(
        rates(
            "Runtime snapshots",
            "Snapshots of runtimes that were stored or refused, by mode.",
            "ktrain_snapshots_written_total",
            "mode, result",
            span=12,
        )
    )
