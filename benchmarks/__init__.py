"""
What ktrain costs, measured: `python -m benchmarks [NAME...]`, or `make bench`.

    help          `ktrain --help`
    first_line    `ktrain run` to the first line that rank 0 prints
    burst         200 TrainJobs applied to `ktrain up --pods off`
    life          what the operator asks of an API server in a TrainJob's whole life
    watch_decode  events of a watch to objects
    apiserver     the embedded API server in process

Machines differ and are never quiet, so every figure stands beside a baseline that was measured in the same run, the two
taking turns; a ratio travels better than a time. `docs/benchmarks.md` says how to read the table.

`figures` is the table; `processes` starts programs; `weigh`, `stages` and `null_controller` are programs of their own
that benchmarks start.
"""
