"""
JobSet: the workload of a TrainJob is one JobSet of the same name.

- `plugin` pod network, terminal condition, counters, validation: the hooks
- `build` the JobSet from the template and the TrainJob's steps
- `rules`, `older_rules`, `pods` validation against the runtime's own, unpatched template
- `state` the part of a JobSet that is kept in memory
"""

from .plugin import JobSet as JobSet
from .state import JOB_SET_STATES as JOB_SET_STATES
from .state import JobSetState as JobSetState
