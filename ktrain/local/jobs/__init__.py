"""
The Job controller (batch/v1): a plain client of the API, usable against any server.

    types.py           Job as this controller reads it
    indexes.py         sets of completion indexes as text, `1,3-5`
    claims.py          which pods are a Job's: adopting, letting go, orphans
    failure_policy.py  what one failed pod means
    counting.py        which pods are finished, and how they count, exactly once
    backoff.py         how long replacements wait
    endings.py         when a Job is over, and why
    pods.py            a pod from a Job's template; which pods are surplus
    status.py          the status as it is written
    managing.py        how many pods there should be, and which
    decide.py          the whole pass as a pure function
    controller.py      observe, decide, act
"""

from .backoff import Tuning as Tuning
from .controller import make_controllers as make_controllers
