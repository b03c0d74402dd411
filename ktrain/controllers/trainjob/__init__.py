"""
The TrainJob controller: observe, decide, act.

- `observe` what is known of one TrainJob, from caches and from this process's memory
- `decide` pure and synchronous: what should be written, in which order, and when to look again
- `status` the desired status, and the smallest patch towards it
- `snapshot` the copy of its runtime that a TrainJob runs on for all its life; `shared`, where many run on one
- `reconciler` runs the three, in that order; `setup` connects them to informers
"""

from .setup import COMPONENT as COMPONENT
from .setup import make_collector as make_collector
from .setup import make_controller as make_controller
from .setup import without_unserved as without_unserved
from .shared import SharedSnapshots as SharedSnapshots
