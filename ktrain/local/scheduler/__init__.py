"""
The scheduler: gives pods a node, all of a gang or none, and says why the rest have to wait.

    objects.py     pods, nodes and groups as the scheduler reads them
    resources.py   what a pod asks for, what a node has to give, as integers
    selecting.py   node selectors, taints, label selectors of terms
    fleet.py       the nodes with what is promised of them, and the accounts of terms between pods
    filtering.py   whether a pod fits a node, in kube-scheduler's words
    scoring.py     which of the nodes that fit
    gangs.py       which pods start together
    preempting.py  who has to go for a more important pod
    planning.py    the whole pass as a pure function
    controller.py  observe, plan, bind, explain and evict

It is a plain client of the API, usable against any server. What kube-scheduler has and this one lacks: volumes'
topology, DRA, soft topology spread, and a random choice among equals: ours takes the first by name. What it does that
kube-scheduler leaves behind a gate: gangs have others evicted, and are evicted, as a whole.
"""

from .controller import COMPONENT as COMPONENT
from .controller import make_scheduler as make_scheduler
from .controller import serves_pod_groups as serves_pod_groups
