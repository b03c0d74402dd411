"""
The built-in plugins, found by their entry points like anyone else's. None imports another.

    plainml, torch/, jax, xgboost, mpi/, flux/   what the processes of each framework are told of their peers
    coscheduling, volcano, workload/             gangs, for three schedulers
    initializers                                 steps that fetch a dataset or a model first
    trainjobstatus                               pods that report how far they are
    jobset/                                      the JobSet, made of what all the others have written
"""
