"""
Whether the cluster's JobSets can have startup rules (KEP-672), said when a TrainJob is created whose runtime has them.

Rules are ktrain's own field. The definition that comes with the JobSet operator lacks it, and that operator does not
know it. The reconciler learns of the missing field when the API server refuses the JobSet, and reports that in the
TrainJob's diagnosis. Admission warns of it at once. It reads the served schema, and only for TrainJobs whose runtime
has rules: every user may read `/openapi/v3`, while the definition itself would need another permission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from ktrain.api import trainer as api
from ktrain.api.jobset import JOBSETS, StartupPolicy
from ktrain.api.meta import Key, Struct
from ktrain.framework.errors import FrameworkError
from ktrain.framework.webhook import Allowed

from .scope import is_watched
from .trainjob.refusals import RULES_ADVICE

if TYPE_CHECKING:
    from ktrain.framework import Cache, Client, Env
    from ktrain.framework.webhook import AdmissionRequest

log = structlog.get_logger(__name__)

FRESH_S: Final = 60.0
"""For so long the served schema is taken to lack the rules as it did. Where it has them, it is not read again."""
READ_S: Final = 2.0
_PATH: Final = f"/openapi/v3/apis/{JOBSETS.group}/{JOBSETS.version}"
_FIELD: Final = ("spec", "startupPolicy", "rules")
_UNDECLARED: Final = "this cluster's definition of JobSet has no such field, so no JobSet can be created"
_UNHEEDED: Final = (
    "this operator runs without its JobSet controller: the JobSet operator takes no notice of rules, and starts"
    " replicatedJobs one by one, each when the one before is Ready"
)


class _Schema(Struct, frozen=True):
    properties: dict[str, _Schema] = {}


class _Components(Struct, frozen=True):
    schemas: dict[str, _Schema] = {}


class _Document(Struct, frozen=True):
    components: _Components = _Components()


class _Template(Struct, frozen=True):
    startup_policy: StartupPolicy | None = None


class StartupRulesCheck:
    """
    An admission handler that warns of TrainJobs whose rules cannot be kept. It refuses nothing.

    `controls_jobsets`: whether this operator runs ktrain's JobSet controller.
    """

    def __init__(self, client: Client, cache: Cache, env: Env, *, controls_jobsets: bool) -> None:
        self._client = client
        self._env = env
        self._controls_jobsets = controls_jobsets
        self._runtimes = {
            (kind.group, kind.kind): cache.informer(kind)
            for kind in (api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES)
            if is_watched(cache, kind)
        }
        self._has_rules = False
        self._read_s: float | None = None

    async def __call__(self, request: AdmissionRequest) -> Allowed:
        """Warn where the runtime of a new TrainJob has rules that the cluster does not know."""
        if request.operation != "CREATE" or request.object is None:
            return Allowed()
        try:
            job = msgspec.convert(request.object, api.TrainJob, strict=False)
        except msgspec.ValidationError:
            return Allowed()
        runtime = self._runtime(job)
        if runtime is None or not has_startup_rules(runtime):
            return Allowed()
        problem = None if await self._are_declared() else _UNDECLARED
        if problem is None and not self._controls_jobsets:
            problem = _UNHEEDED
        if problem is None:
            return Allowed()
        ref = job.spec.runtime_ref
        return Allowed(warnings=(f'{ref.kind} "{ref.name}" has startupPolicy.rules: {problem}; {RULES_ADVICE}',))

    def _runtime(self, job: api.TrainJob) -> api.Runtime | None:
        ref = job.spec.runtime_ref
        informer = self._runtimes.get((ref.api_group, ref.kind))
        if informer is None:
            return None
        namespace = job.metadata.namespace if ref.kind == api.TRAINING_RUNTIMES.kind else ""
        return informer.get(Key(namespace, ref.name))

    async def _are_declared(self) -> bool:
        """Whether the served schema has rules; also if it cannot be read, since the reconciler will learn it."""
        now_s = self._env.clock.monotonic()
        if self._has_rules or (self._read_s is not None and now_s - self._read_s < FRESH_S):
            return self._has_rules
        try:
            answer = await self._client.raw("GET", _PATH, timeout_s=READ_S)
            schemas = msgspec.json.decode(answer.body, type=_Document).components.schemas
        except (FrameworkError, msgspec.DecodeError) as error:
            log.debug("jobset.schema_unreadable", error=str(error))
            return True
        self._has_rules = any(_declares(schema) for schema in schemas.values())
        self._read_s = now_s
        return self._has_rules


def has_startup_rules(runtime: api.Runtime) -> bool:
    """Whether the JobSets of a runtime have startup rules."""
    if b'"rules"' not in bytes(runtime.spec):
        return False
    template = msgspec.json.decode(runtime.spec, type=api.RuntimeSpec).template.spec
    policy = msgspec.json.decode(template, type=_Template).startup_policy
    return policy is not None and bool(policy.rules)


def _declares(schema: _Schema) -> bool:
    for name in _FIELD:
        found = schema.properties.get(name)
        if found is None:
            return False
        schema = found
    return True
