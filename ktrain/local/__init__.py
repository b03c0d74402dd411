"""
The embedded control plane: on one machine, in one process, what a cluster does for a TrainJob.

    plane        all of it, in order     composing    its controllers     server   its API server, with our kinds
    apiserver/   a Kubernetes API server in memory     admission, jobset_admission   webhooks, without HTTP
    jobs/        the Job controller                    scheduler/   which node a pod is for
    nodes        the nodes, each with its kubelet      kubelet/     pods as processes     sandbox/   where those run
    node_options what nodes there should be            installing   what there is from the start
    state        a directory to live in                kubeconfig, sockets, status_server   how it is reached
"""
