"""
The TrainJob controller: observe, decide, act.

- `waking` which changes concern which job; `setup` makes the controllers
- `observe` what is known of one TrainJob: from caches (`lookups`), and from this process's memory (`memories`)
- `decide` pure and synchronous: what should be written, and when to look again (`decision`). Its parts: `build` for
  components, `elastic` for the size, `gangs` for what a running job's pods need, `stalls` for a JobSet that does not
  get on (of which `complaints` tell, read at its `looks`), `held` for what does not go, `status`
- `snapshot` the copy of its runtime that a TrainJob runs on for all its life; `own_snapshots` and `shared`, how it is
  stored; `fetching`, for who has no caches
- `reconciler` runs the three, in that order; `comparing` what is written already, after a restart, and what is `kept`
  of Kubeflow's; `writing` what goes out, `stopping` what does even if nothing else can; `refusals` what came back, and
  `telling` users of it; `missing` tells them while no pass can run
- `metrics` the series of TrainJobs, and `metrics_observer`, which follows informers for them
"""

from .rights import RIGHTS as RIGHTS
from .rights import SHARED_SNAPSHOTS as SHARED_SNAPSHOTS
from .setup import COMPONENT as COMPONENT
from .setup import make_collector as make_collector
from .setup import make_controller as make_controller
from .setup import make_job_metrics as make_job_metrics
from .setup import without_unserved as without_unserved
from .shared import SharedSnapshots as SharedSnapshots
