"""
Events for people (events.k8s.io/v1): what a controller did, shown by `kubectl describe` and `kubectl events`.

    recorder        takes events without waiting, and sends them
    correlation     which events are the same, which are alike, and which are too many
    forms           how an event is written, by the newer and by the older API
"""

from .recorder import MAX_ATTEMPTS as MAX_ATTEMPTS
from .recorder import QUEUE_SIZE as QUEUE_SIZE
from .recorder import RIGHTS as RIGHTS
from .recorder import EventRecorder as EventRecorder
