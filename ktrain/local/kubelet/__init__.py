"""
The process kubelet: runs the pods bound to its node as processes of an executor (`ktrain.local.sandbox`).

    spec, status, environment, restarts   what a pod is, and the rules: pure
    sources, volumes, files               what a pod reads from the API and mounts
    launch, probes, container             one container: how it starts, is asked and stops
    worker, reporter, deadline            one pod: the state machine, the single writer of its status
    logs                                  log files of attempts, and how `pods/log` reads them
    node, gpus, kubelet                   the Node, and a worker for every pod bound to it

The rules it keeps: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and its neighbours.
"""
