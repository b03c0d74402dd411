"""
The JobSet controller (`jobset.x-k8s.io/v1alpha2`), behaviour-compatible with kubernetes-sigs/jobset.

    reconciler.py   observe from caches, act; `make_controller`
    decide.py       the pure decision, in the order of the contract
    buckets.py      Jobs by what became of them, counters          ordering.py   InOrder and dependsOn
    policies.py     success, failure, restarts                      suspend.py    suspend and resume
    children.py     Jobs and the Service to post                    volumes.py    claims
    conditions.py   the status and how it changes                   admission.py  defaults and validation on admission

In a cluster the JobSet operator does this work; ktrain's is for local mode and for tests.
"""

from __future__ import annotations

from .decide import Decision as Decision
from .decide import Observed as Observed
from .decide import decide as decide
from .errors import CreationFailed as CreationFailed
from .errors import Undecidable as Undecidable
from .reconciler import make_controller as make_controller
