"""
The HorizontalPodAutoscaler controller (autoscaling/v2) of the embedded control plane: CPU only.

    types.py       HorizontalPodAutoscaler as this controller reads it
    arithmetic.py  how many replicas the load of the pods calls for
    behavior.py    what stabilization windows and policies make of a recommendation
    decide.py      one reconcile as a pure function: size, conditions, status
    usage.py       what the processes of pods have used, from /proc
    controller.py  observe, decide, act
"""

from .controller import COMPONENT as COMPONENT
from .controller import make_controller as make_controller
from .usage import node_cpu_times as node_cpu_times
