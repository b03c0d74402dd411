"""
The CustomResourceDefinitions of trainer.kubeflow.org and of JobSet, written down once and generated from here.

    python -m ktrain.api.crds config/crd

writes one YAML file for each, and `embedded/crds.json` with all of them for the embedded server, which reads JSON a
hundred times faster than YAML; beside it `embedded/podgroups.json` has those of other gang schedulers, which a cluster
gets from their projects. Pod templates and the like are inlined from the schemas of the built-in kinds, so that the API
server checks them when a job is created, not when its pods are. Apply the files with server-side apply
(`kubectl apply --server-side -f config/crd`): they are too large for the annotation that client-side apply keeps.

Beyond Kubeflow Trainer's fields there are open slots for plugins: `mlPolicy.plugin` and `podGroupPolicy.plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .jobset import jobset_crd
from .optimizationjob import optimizationjob_crd
from .podgroups import pod_group_crds as pod_group_crds
from .runtime import runtime_crds
from .trainjob import trainjob_crd

if TYPE_CHECKING:
    from ..meta import Json


def all_crds() -> list[Json]:
    """All CRDs, built anew; their parts are shared and must not be changed. `ktrain.api.assets` reads them faster."""
    return [trainjob_crd(), *runtime_crds(), optimizationjob_crd(), jobset_crd()]
