"""
Kubeflow's SDK, unmodified, on `ktrain up`: `python examples/sdk/train.py KUBECONFIG` (pip install '.[sdk]').

Everything a client does with a job: look for a runtime, send a function, wait, read logs and events, delete.
"""

import sys

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient


def fit(rate, steps):
    """What runs on the nodes: it is sent as source, so it imports what it needs by itself."""
    import os

    slope = 0.0
    for _ in range(steps):
        slope -= rate * (slope - 3.0)
    print(f"node {os.environ['JOB_COMPLETION_INDEX']}: slope {slope:.3f} after {steps} steps", flush=True)


def main():
    client = TrainerClient(KubernetesBackendConfig(config_file=sys.argv[1]))
    print("runtimes:", ", ".join(sorted(runtime.name for runtime in client.list_runtimes())))

    trainer = CustomTrainer(func=fit, func_args={"rate": 0.1, "steps": 50}, num_nodes=2)
    name = client.train(runtime=client.get_runtime("plain"), trainer=trainer)
    job = client.wait_for_job_status(name, timeout=120, polling_interval=1)
    for step in sorted(job.steps, key=lambda step: step.name):
        for line in client.get_job_logs(name, step=step.name):
            print(f"{step.name}: {line}")
    for event in client.get_job_events(name):
        print(f"event: {event.involved_object_kind} {event.reason}: {event.message}")
    client.delete_job(name)
    print(f"{job.status}; {len(client.list_jobs())} jobs are left")


if __name__ == "__main__":
    main()
