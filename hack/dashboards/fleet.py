"""The dashboard for a platform team: what all TrainJobs do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders.dashboard import Row
from panels import AMBER, GREEN, RED, Query, board, graph, listing, number, quantiles, variable

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

JOBS: Final = 'namespace=~"$namespace", runtime=~"$runtime"'
NAMESPACE: Final = 'namespace=~"$namespace"'


def fleet() -> Dashboard:
    """Return the dashboard."""
    variables = [
        variable(
            "namespace",
            "Namespace",
            "label_values(ktrain_trainjobs, namespace)",
            "Namespaces with TrainJobs; the operator counts more than 100 as `other`.",
        ),
        variable(
            "runtime",
            "Runtime",
            'label_values(ktrain_trainjobs{namespace=~"$namespace"}, runtime)',
            "Runtimes of these TrainJobs.",
        ),
    ]
    made = board(
        "ktrain-fleet",
        "ktrain / Fleet",
        "TrainJobs of all namespaces: phases, nodes, gangs, failures, times and blockers.",
        variables,
    )
    for part in (_now, _jobs, _nodes_and_gangs, _times, _failures):
        part(made)
    return made


def _phase(*phases: str) -> Query:
    return Query(f'sum(ktrain_trainjobs{{{JOBS}, phase=~"{"|".join(phases)}"}}) or vector(0)')


def _now(made: Dashboard) -> None:
    made.with_row(Row("Now"))
    made.with_panel(number("Running", "TrainJobs whose nodes all run.", _phase("Running")))
    made.with_panel(
        number(
            "Waiting",
            "TrainJobs that are stored, queued or starting: no queue admitted them yet, or nodes are not ready.",
            _phase("Pending", "Queued", "Starting"),
        )
    )
    made.with_panel(
        number(
            "Stalled",
            "TrainJobs without progress; the diagnosis of each says why. Above 0, look at them below.",
            _phase("Stalled"),
            from_=((1, AMBER), (10, RED)),
        )
    )
    made.with_panel(
        number(
            "Nodes ready",
            "Share of the nodes that unfinished, unsuspended TrainJobs want and that are ready.",
            Query(
                f'sum(ktrain_trainjob_nodes{{{JOBS}, state="ready"}})'
                f' / (sum(ktrain_trainjob_nodes{{{JOBS}, state="wanted"}}) > 0)'
            ),
            unit="percentunit",
        )
    )
    made.with_panel(
        number(
            "Gangs waiting",
            "TrainJobs whose pods are placed together or not at all, and that are not all placed yet.",
            Query(f"sum(ktrain_gang_waiting_jobs{{{NAMESPACE}}}) or vector(0)"),
            from_=((1, AMBER),),
        )
    )
    made.with_panel(
        number(
            "Failed in the last hour",
            "TrainJobs that got the condition Failed within the last hour.",
            Query(f'sum(increase(ktrain_trainjobs_ended_total{{{JOBS}, result="Failed"}}[1h])) or vector(0)'),
            from_=((1, AMBER), (10, RED)),
        )
    )


def _jobs(made: Dashboard) -> None:
    made.with_row(Row("TrainJobs"))
    for title, label, description in (
        ("By phase", "phase", "TrainJobs by `status.state`; Unknown: the operator has not set one yet."),
        ("By namespace", "namespace", "Unfinished and finished TrainJobs that are stored, by namespace."),
        ("By runtime", "runtime", "The same by the runtime that the TrainJob names."),
    ):
        expr = f"sum by ({label}) (ktrain_trainjobs{{{JOBS}}})"
        made.with_panel(graph(title, description, Query(expr, f"{{{{{label}}}}}"), stacked=True))
    made.with_panel(
        graph(
            "Begun and ended",
            "TrainJobs for which the operator built a JobSet, and TrainJobs that ended, per second.",
            Query(f"sum(rate(ktrain_trainjobs_created_total{{{JOBS}}}[$__rate_interval]))", "begun"),
            Query(f"sum by (result) (rate(ktrain_trainjobs_ended_total{{{JOBS}}}[$__rate_interval]))", "{{result}}"),
            unit="cps",
            span=12,
        )
    )
    made.with_panel(
        graph(
            "Restarts",
            "Restarts of JobSets and of single Jobs, per second. Steady restarts of one runtime are a defect of its"
            " programs or of its nodes.",
            Query(
                f"sum by (namespace, runtime) (rate(ktrain_trainjob_restarts_total{{{JOBS}}}[$__rate_interval]))",
                "{{namespace}} {{runtime}}",
            ),
            unit="cps",
            span=12,
        )
    )


def _nodes_and_gangs(made: Dashboard) -> None:
    made.with_row(Row("Nodes and gangs"))
    made.with_panel(
        graph(
            "Nodes",
            "Nodes (pods that train) of TrainJobs that are neither over nor suspended: wanted, ready and failed.",
            Query(f"sum by (state) (ktrain_trainjob_nodes{{{JOBS}}})", "{{state}}"),
        )
    )
    made.with_panel(
        graph(
            "Waiting gangs",
            "TrainJobs with a gang policy whose pods are not all placed, by namespace.",
            Query(f"sum by (namespace) (ktrain_gang_waiting_jobs{{{NAMESPACE}}})", "{{namespace}}"),
            stacked=True,
        )
    )
    made.with_panel(
        graph(
            "Gang waits",
            "How long gangs waited until they ran. All namespaces: this histogram has no labels.",
            *quantiles("ktrain_gang_wait_seconds"),
            unit="s",
        )
    )


def _milestone(share: float, legend: str) -> Query:
    rates = "sum by (le, milestone) (rate(ktrain_trainjob_milestone_seconds_bucket[$__rate_interval]))"
    return Query(f"histogram_quantile({share}, {rates})", legend)


def _times(made: Dashboard) -> None:
    made.with_row(Row("Times (all namespaces)"))
    made.with_panel(
        graph(
            "Time to running",
            "Seconds from the creation of a TrainJob until all of its nodes ran, with the wait in queues.",
            *quantiles("ktrain_trainjob_milestone_seconds", selector='milestone="running"'),
            unit="s",
        )
    )
    made.with_panel(
        graph(
            "Time to each milestone, median",
            "jobset: the JobSet is stored. admitted: it is not suspended. first_pod: a pod is ready. running: all nodes"
            " are. ended: Complete or Failed. The distance of two lines is where time goes.",
            _milestone(0.5, "{{milestone}}"),
            unit="s",
        )
    )
    made.with_panel(
        graph(
            "JobSet within 30 s",
            "Share of TrainJobs that had their JobSet within 30 s of their creation: the objective is 99 %.",
            Query(
                'sum(rate(ktrain_trainjob_milestone_seconds_bucket{milestone="jobset", le="30.0"}[$__rate_interval]))'
                ' / (sum(rate(ktrain_trainjob_milestone_seconds_count{milestone="jobset"}[$__rate_interval])) > 0)',
                "share",
            ),
            unit="percentunit",
            line_at=((0.99, GREEN),),
        )
    )


def _failures(made: Dashboard) -> None:
    made.with_row(Row("Failures and blockers"))
    made.with_panel(
        listing(
            "Failures by reason",
            "TrainJobs that failed within the time range, by the reason of their condition Failed.",
            Query(
                "sort_desc(sum by (namespace, runtime, reason)"
                f' (increase(ktrain_trainjobs_ended_total{{{JOBS}, result="Failed"}}[$__range])) > 0)'
            ),
            names={"namespace": "Namespace", "runtime": "Runtime", "reason": "Reason", "Value": "TrainJobs"},
        )
    )
    made.with_panel(
        listing(
            "Blocked TrainJobs",
            "TrainJobs with a diagnosis, by its reason; docs/operator.md explains each. kubectl get trainjobs -A -o"
            " wide names the TrainJobs.",
            Query(f"sort_desc(sum by (namespace, reason) (ktrain_trainjobs_blocked{{{NAMESPACE}}}) > 0)"),
            names={"namespace": "Namespace", "reason": "Reason", "Value": "TrainJobs"},
        )
    )
    made.with_panel(
        graph(
            "Blocked, by reason",
            "TrainJobs with a diagnosis, by its reason.",
            Query(f"sum by (reason) (ktrain_trainjobs_blocked{{{NAMESPACE}}})", "{{reason}}"),
            span=12,
            stacked=True,
        )
    )
    made.with_panel(
        graph(
            "Age of the oldest blocker",
            "How long the longest blocked TrainJob has its diagnosis, by reason. All namespaces.",
            Query("max by (reason) (ktrain_trainjob_blocked_age_seconds)", "{{reason}}"),
            unit="s",
            span=12,
            line_at=((900, AMBER), (3600, RED)),
        )
    )
