"""
The reconcilers, and what is asked before an object of ours is stored.

    trainjob/       from a TrainJob and its runtime to a JobSet, and from the JobSet to the TrainJob's status
    jobset/         what the JobSet operator does, for where there is none
    runtimes        takes a finalizer of Kubeflow's off runtimes
    statusserver/   takes the reports of pods on how far their training is
    admission       one default, and the rules of TrainJobs and runtimes      webhooks   the same over HTTP
    kueue           what is meant by an update of a TrainJob in a queue       impact     whom a runtime's change touches
"""
