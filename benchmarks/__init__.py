"""
What ktrain costs, measured: `python -m benchmarks [NAME...]`, or `make bench`.

    help              `ktrain --help`
    first_line        `ktrain run` to the first line that rank 0 prints
    burst             200 TrainJobs applied to `ktrain up --pods off`
    trainjobs         1,000 TrainJobs at once, to a client that fires the same writes, also on a real kube-apiserver
    delivery          from a TrainJob to its JobSet, paced, to one watch delivery and one apply; there, too
    life              what the operator asks of an API server in a TrainJob's whole life; there, too
    live_jobs         memory of the operator for each TrainJob that runs, and for foreign objects; there, too
    plans             the pipeline alone
    jobsets           200 JobSets and the JobSet controller, also on a real kube-apiserver
    apiserver         the embedded API server in process
    serving           the embedded API server over TLS, to a real kube-apiserver
    durable           what `--state` costs
    empty             memory of `ktrain up --pods off` with nothing in it
    pods              a Job of 200 pods until they run, in namespaces and on the shared host

and of the framework alone, where a server takes part on the embedded one and on a real kube-apiserver:

    watch_decode      events of a watch to objects
    watch_store       events of a watch into an informer
    reconcile_noop    keys through queue and worker, and how long they wait
    framework_import  `import ktrain.framework`
    applies           1,000 keys with one write each
    sync              10,000 objects into an informer: time, memory, stalls
    foreign_objects   what objects cost that nobody selected
    idle              a manager with nothing to do
    failover          from the end of a leader to the work of the next

Machines differ and are never quiet, so every figure stands beside a baseline that was measured in the same run, the two
taking turns; a ratio travels better than a time. `docs/performance.md` says how to read the table.

`figures` is the table; `processes` starts programs, `servers` API servers; `weigh`, `stages`, `null_controller`,
`null_jobsets`, `plain_server`, `load_program`, `sync_program`, `pods_program`, `jobset_program` and `manager_program`
are programs of their own that benchmarks start.
"""
