"""
The process kubelet: runs the pods bound to its node as processes of an executor (`ktrain.local.sandbox`).

    spec         a pod as the kubelet reads it
    environment  a container's variables, command and arguments: pure
    status       phase, conditions and container statuses from records: pure
    volumes      what a pod mounts, resolved and written
    probes       handlers (exec, HTTP, TCP), probes and lifecycle hooks
    container    one container: attempts, restarts, probes, stop
    worker       one pod: the state machine, the single writer of its status
    logs         log files of attempts, and how they are read
    node         the Node object, GPU slots
    kubelet      watches pods, owns the workers

See https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ for the rules it keeps.
"""
