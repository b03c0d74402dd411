"""
The Job controller (batch/v1) and the scheduler: plain clients of the API, usable against any server.

    types.py       Job as this controller reads it
    indexes.py     sets of completion indexes as text, `1,3-5`
    counting.py    which pods are finished, and how they count, exactly once
    endings.py     when a Job is over, and why
    pods.py        a pod from a Job's template; which pods are surplus
    decide.py      the whole pass as a pure function
    controller.py  observe, decide, act
    scheduler.py   binds pods to the node there is
"""

from .controller import make_controller as make_controller
from .scheduler import make_scheduler as make_scheduler
