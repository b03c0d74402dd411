"""
The TrainJob controller: observe, decide, act.

- `waking` which changes concern which job; `setup` makes the controllers
- `observe` what is known of one TrainJob, from caches and from this process's memory
- `decide` pure and synchronous: what should be written, in which order, and when to look again. Its parts: `build` for
  components, `elastic` for the size, `gangs` for what a running job's pods need, `status`
- `snapshot` the copy of its runtime that a TrainJob runs on for all its life; `shared`, where many run on one;
  `fetching`, for who has no caches
- `reconciler` runs the three, in that order; `comparing` what is written already, after a restart; `writing` what goes
  out, `refusals` what came back
"""

from .setup import COMPONENT as COMPONENT
from .setup import make_collector as make_collector
from .setup import make_controller as make_controller
from .setup import without_unserved as without_unserved
from .shared import SharedSnapshots as SharedSnapshots
