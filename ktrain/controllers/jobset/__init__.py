"""
The JobSet controller (`jobset.x-k8s.io/v1alpha2`), behaviour-compatible with kubernetes-sigs/jobset.

    setup.py        what is watched; `make_controllers`             reconciler.py  observe from caches, act
    decide.py       the pure decision, in the order of the contract  gates.py      what is off unless asked for
    buckets.py      Jobs by what became of them, counters          ordering.py   InOrder and dependsOn
    policies.py     success, failure, restarts                      suspend.py    suspend and resume
    children.py     Jobs and the Service to post                    volumes.py    claims
    attempts.py     generations of Jobs                             in_place.py, elastic.py   two gates
    conditions.py   the status and how it changes                   admission.py  defaults and validation on admission
    placement.py    one Job to a topology domain                    pod_controller.py   followers that are elsewhere
    decoded.py      templates as upstream's webhook leaves them     go_order.py    values as upstream prints them
    mutability.py   what may change                                 *_rules.py     what parts of a spec may say
    names.py        rules for names and labels                      pods.py        pods and nodes from caches
    webhooks.py     both kinds of admission over HTTP               metrics.py     ends, counted
    errors.py       what can stop a pass

On in local mode; in a cluster the JobSet operator does this work, unless ktrain's operator is told to.
"""

from __future__ import annotations

from .decide import Observed as Observed
from .decide import decide as decide
from .errors import Undecidable as Undecidable
from .gates import ELASTIC_TRAIN_JOBS as ELASTIC_TRAIN_JOBS
from .gates import Gates as Gates
from .pods import JobSetPods as JobSetPods
from .rights import RIGHTS as RIGHTS
from .setup import COMPONENT as COMPONENT
from .setup import CONCURRENCY as CONCURRENCY
from .setup import FIELD_MANAGER as FIELD_MANAGER
from .setup import PATIENCE_S as PATIENCE_S
from .setup import make_controllers as make_controllers
