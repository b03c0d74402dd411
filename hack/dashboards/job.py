"""
The dashboard for the owner of a TrainJob: its state, pods, resources and GPUs.

The operator's metrics have no names of jobs and pods, which would be too many series. This dashboard takes them from
kube-state-metrics (pods, Jobs, and TrainJobs by charts/ktrain/files/kube-state-metrics.yaml), the kubelet's cAdvisor
and NVIDIA's DCGM exporter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders.dashboard import Row
from panels import AMBER, RED, Query, board, graph, listing, number, quantiles, variable

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

JOB: Final = 'namespace="$namespace", trainjob="$trainjob"'
PODS: Final = 'namespace="$namespace", pod=~"$pod"'
CONTAINERS: Final = f'{PODS}, container!="", container!="POD"'
JOBS: Final = '* on (namespace, job_name) group_left () kube_job_owner{owner_kind="JobSet", owner_name="$trainjob"}'


def job() -> Dashboard:
    """Return the dashboard."""
    variables = [
        variable(
            "namespace",
            "Namespace",
            "label_values(kube_trainjob_info, namespace)",
            "Namespace of the TrainJob.",
            several=False,
        ),
        variable(
            "trainjob",
            "TrainJob",
            'label_values(kube_trainjob_info{namespace="$namespace"}, trainjob)',
            "The TrainJob.",
            several=False,
        ),
        variable(
            "pod",
            "Pod",
            'label_values(kube_pod_labels{namespace="$namespace",'
            ' label_jobset_sigs_k8s_io_jobset_name="$trainjob"}, pod)',
            "Pods of the TrainJob, by the label of their JobSet.",
        ),
    ]
    made = board(
        "ktrain-job",
        "ktrain / One job",
        "One TrainJob: state, nodes, pods, CPU, memory, network and GPUs.",
        variables,
    )
    for part in (_state, _pods, _resources, _gpus, _comparison):
        part(made)
    return made


def _state(made: Dashboard) -> None:
    made.with_row(Row("State"))
    made.with_panel(
        listing(
            "State",
            "`status.state` of the TrainJob, and its runtime.",
            Query(
                f"kube_trainjob_info{{{JOB}}}"
                f" * on (namespace, trainjob) group_left (state) (kube_trainjob_state{{{JOB}}} == 1)"
            ),
            names={"state": "State", "runtime": "Runtime", "runtime_kind": "Kind"},
            span=8,
        )
    )
    made.with_panel(
        number(
            "Nodes ready",
            "Share of the wanted nodes that are ready or done (`status.nodes`).",
            Query(f"max(kube_trainjob_nodes_ready{{{JOB}}}) / (max(kube_trainjob_nodes_wanted{{{JOB}}}) > 0)"),
            unit="percentunit",
        )
    )
    made.with_panel(
        number(
            "Restarts",
            "Restarts of the JobSet and of its single Jobs (`status.restarts`).",
            Query(f"max(kube_trainjob_restarts{{{JOB}}}) or vector(0)"),
            from_=((1, AMBER), (3, RED)),
        )
    )
    made.with_panel(
        number(
            "Age",
            "Time since the TrainJob was created.",
            Query(f"time() - max(kube_trainjob_created{{{JOB}}})"),
            unit="s",
        )
    )
    made.with_panel(
        number(
            "Blocked for",
            "How long the TrainJob has its present diagnosis; 0 without one. kubectl describe has its message.",
            Query(f"(time() - max(kube_trainjob_diagnosis_since{{{JOB}}})) or vector(0)"),
            unit="s",
            from_=((300, AMBER), (3600, RED)),
        )
    )
    made.with_panel(
        graph(
            "State over time",
            "The state at each moment is the series that is 1.",
            Query(f"max by (state) (kube_trainjob_state{{{JOB}}})", "{{state}}"),
            span=12,
            stacked=True,
        )
    )
    made.with_panel(
        graph(
            "Nodes over time",
            "Nodes wanted, and ready or done.",
            Query(f"max(kube_trainjob_nodes_wanted{{{JOB}}})", "wanted"),
            Query(f"max(kube_trainjob_nodes_ready{{{JOB}}})", "ready"),
            span=12,
        )
    )


def _pods(made: Dashboard) -> None:
    made.with_row(Row("Jobs and pods"))
    made.with_panel(
        graph(
            "Jobs",
            "Pods of the Jobs of the JobSet, by what they do: active, succeeded, failed.",
            Query(f"sum(kube_job_status_active {JOBS})", "active"),
            Query(f"sum(kube_job_status_succeeded {JOBS})", "succeeded"),
            Query(f"sum(kube_job_status_failed {JOBS})", "failed"),
        )
    )
    made.with_panel(
        graph(
            "Pods by phase",
            "Pods of the TrainJob by phase.",
            Query(f"sum by (phase) (kube_pod_status_phase{{{PODS}}})", "{{phase}}"),
            stacked=True,
        )
    )
    made.with_panel(
        graph(
            "Container restarts",
            "Containers that the kubelet started again, by pod.",
            Query(f"sum by (pod) (kube_pod_container_status_restarts_total{{{PODS}}})", "{{pod}}"),
        )
    )
    made.with_panel(
        listing(
            "Pods",
            "Where each pod runs.",
            Query(f"max by (pod, node, pod_ip) (kube_pod_info{{{PODS}}})"),
            names={"pod": "Pod", "node": "Node", "pod_ip": "Address"},
        )
    )
    made.with_panel(
        listing(
            "Containers that ended or wait",
            "Why containers of the TrainJob ended or do not start: OOMKilled, Error, ImagePullBackOff, ...",
            Query(f"max by (pod, container, reason) (kube_pod_container_status_terminated_reason{{{PODS}}} == 1)"),
            Query(f"max by (pod, container, reason) (kube_pod_container_status_waiting_reason{{{PODS}}} == 1)"),
            names={"pod": "Pod", "container": "Container", "reason": "Reason"},
        )
    )


def _resources(made: Dashboard) -> None:
    made.with_row(Row("CPU, memory and network (cAdvisor)"))
    made.with_panel(
        graph(
            "CPU",
            "CPU cores that each pod uses, and what all pods together request.",
            Query(
                f"sum by (pod) (rate(container_cpu_usage_seconds_total{{{CONTAINERS}}}[$__rate_interval]))", "{{pod}}"
            ),
            Query(f'sum(kube_pod_container_resource_requests{{{PODS}, resource="cpu"}})', "requested by all"),
        )
    )
    made.with_panel(
        graph(
            "Memory",
            "Working set of each pod, which the kubelet compares with the limit, and the largest limit of a container.",
            Query(f"sum by (pod) (container_memory_working_set_bytes{{{CONTAINERS}}})", "{{pod}}"),
            Query(f'max(kube_pod_container_resource_limits{{{PODS}, resource="memory"}})', "limit"),
            unit="bytes",
        )
    )
    made.with_panel(
        graph(
            "Network",
            "Bytes per second that each pod receives and sends; collectives of GPUs by RDMA are not counted.",
            Query(
                f"sum by (pod) (rate(container_network_receive_bytes_total{{{PODS}}}[$__rate_interval]))", "in {{pod}}"
            ),
            Query(
                f"sum by (pod) (rate(container_network_transmit_bytes_total{{{PODS}}}[$__rate_interval]))",
                "out {{pod}}",
            ),
            unit="Bps",
        )
    )


def _gpus(made: Dashboard) -> None:
    made.with_row(Row("GPUs (DCGM exporter)"))
    for title, metric, unit, scale, description in (
        (
            "GPU utilization",
            "DCGM_FI_DEV_GPU_UTIL",
            "percent",
            "",
            "Share of time in which a kernel ran. Far below the others: this node waits for data or for a peer.",
        ),
        ("GPU memory", "DCGM_FI_DEV_FB_USED", "bytes", " * 1048576", "Memory of each GPU that is in use."),
        (
            "Tensor cores",
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            "percentunit",
            "",
            "Share of cycles in which tensor cores worked: how well the GPUs are used for training.",
        ),
    ):
        expr = f"max by (pod, gpu) ({metric}{{{PODS}}}){scale}"
        made.with_panel(graph(title, description, Query(expr, "{{pod}} GPU {{gpu}}"), unit=unit))


def _comparison(made: Dashboard) -> None:
    made.with_row(Row("Its namespace and all jobs"))
    made.with_panel(
        graph(
            "TrainJobs of the namespace",
            "TrainJobs of the same namespace by phase: is it only this one that waits?",
            Query('sum by (phase) (ktrain_trainjobs{namespace="$namespace"})', "{{phase}}"),
            stacked=True,
        )
    )
    made.with_panel(
        graph(
            "Blocked in the namespace",
            "TrainJobs of the namespace with a diagnosis, by reason.",
            Query('sum by (reason) (ktrain_trainjobs_blocked{namespace="$namespace"})', "{{reason}}"),
            stacked=True,
        )
    )
    made.with_panel(
        graph(
            "Time to running, all TrainJobs",
            "How long it takes other TrainJobs until all of their nodes run.",
            *quantiles("ktrain_trainjob_milestone_seconds", selector='milestone="running"'),
            unit="s",
        )
    )
