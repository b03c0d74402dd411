"""
The command `ktrain`: one module per command, and what they share.

    main.py      the group; commands are imported when they are called, so `--help` stays cheap
    run.py       `ktrain run`: a TrainJob from start to end, on this machine or on a cluster
    up.py        `ktrain up`: the embedded control plane as a server
    operator.py  `ktrain operator`: only the controllers
    runtime.py   `ktrain runtime`: questions about runtimes
    version.py   `ktrain version`
    running.py   what `run` does, from submitting to the exit code
    operating.py what `operator` does; config.py its file
    script.py    a TrainJob that stands for `ktrain run train.py ...`
    follow.py    what is going on with one TrainJob, from watches
    logs.py      the logs of its pods, line by line
    display.py   the screen
    explain.py   why it failed, as a person would say it
"""
