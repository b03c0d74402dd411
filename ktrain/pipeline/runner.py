"""
Runs the phases. Every function here is pure: the same inputs give the same plan, on a cluster, offline, or replayed.

`plan` answers what should exist for a TrainJob; `validate`, whether it can work; `validate_runtime`, whether TrainJobs
can work by a runtime; `terminal_condition`, `conditions`, `jobs_status` and `size`, how a TrainJob is; `gangs`, what
its scheduler needs and says; `upkeep`, what else it goes on needing; `removals`, what has to go. A plugin that raises
becomes a `PluginError` that names plugin, hook and job; so does one that returns what its extension point does not, or
does not return in time. Every phase may raise it. Those that an end depends on put it into `failures` instead, where
these are given, and ask the other plugins all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias, TypeVar

from ktrain.api.meta import ObjectMeta
from ktrain.api.trainer import CONDITIONS, MAX_CONDITIONS, TrainJob

from .answers import wrong_answer
from .errors import PipelineError, PlanError, PluginConflict, PluginError, PluginOverrun
from .findings import Findings, forbidden
from .journal import Author, FieldConflict
from .overrun import LIMIT_S, TIMER, Overrun
from .prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ktrain.api.meta import Condition, Key
    from ktrain.api.trainer import JobStatus, RuntimeSpec

    from .calls import FailureKind
    from .info import Info
    from .journal import Journal
    from .points import Address, Component, Context, Gang, Plugin, Removal, Size
    from .registry import Registry

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U", bound="Plugin")

Failures: TypeAlias = "list[PipelineError] | None"
"""Where plugins that fail are noted; if nowhere, the first one is raised."""

_MOST_CONDITIONS: Final = MAX_CONDITIONS - len(CONDITIONS)

HOOK_BUDGET_S: Final = 0.05
"""What one hook may take for one job. The event loop stands still meanwhile; the whole pipeline is to take 400 us."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What should exist for a TrainJob."""

    components: tuple[Component, ...]
    journal: Journal
    durations: Mapping[str, float]
    """Seconds by plugin, all hooks together."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Path of each field that was set to who set it. Fields not listed come from the runtime."""
        return self.journal.provenance


class _Caller:
    """
    Calls the hooks of one job, one after the other: authorship, time, and errors that name the plugin.

    Most hooks have nothing to do for most jobs, and what is done around each of them counts thirty times for a job. So
    the end of one is the beginning of the next, and the clock is read once.
    """

    def __init__(self, registry: Registry, job: TrainJob, ctx: Context, info: Info | None = None) -> None:
        self._foreign = registry.foreign
        self._calls = registry.calls
        self._key = job.key
        self._ctx = ctx
        self._journal = info.journal if info else None
        self._since_s = ctx.monotonic()
        self.durations: dict[str, float] = {}

    def call(self, plugin: Plugin, hook: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """
        Run one hook of *plugin*.

        Raises:
            PipelineError: It failed, or refused.
        """
        is_foreign = plugin.name in self._foreign
        before = self._journal.hand_to(Author(plugin.name, hook)) if self._journal else None
        try:
            if is_foreign:
                with TIMER.limiting():
                    answer = function(*args, **kwargs)
            else:
                answer = function(*args, **kwargs)
        except FieldConflict as conflict:
            self._calls.failed(plugin.name, hook, "conflict")
            raise PluginConflict(
                conflict.path, conflict.first, plugin.name, hook=hook, job=str(self._key)
            ) from conflict
        except PipelineError:
            raise
        except Overrun as overrun:
            raise self._overrun(plugin, hook, overrun) from overrun
        except (Exception, SystemExit) as error:
            raise self._error(plugin, hook, error, "raised") from error
        finally:
            if self._journal and before:
                self._journal.hand_to(before)
            took_s = self._measured(plugin, hook)
        if is_foreign and took_s > LIMIT_S:
            raise self._overrun(plugin, hook, Overrun())
        if is_foreign and (wrong := wrong_answer(hook, answer)):
            raise self._error(plugin, hook, wrong, "answer")
        return answer

    def first(
        self, hook: str, plugins: Iterable[U], ask: Callable[[U], T | None], failures: Failures = None
    ) -> T | None:
        """Ask one plugin after the other, until one has an answer."""
        answers = self._answers(hook, plugins, ask, failures)
        return next((answer for answer in answers if answer is not None), None)

    def every(
        self, hook: str, plugins: Iterable[U], ask: Callable[[U], Iterable[T]], failures: Failures = None
    ) -> tuple[T, ...]:
        """Ask all plugins, and put their answers together."""
        return tuple(item for answer in self._answers(hook, plugins, ask, failures) for item in answer)

    def _answers(self, hook: str, plugins: Iterable[U], ask: Callable[[U], T], failures: Failures) -> Iterator[T]:
        for plugin in plugins:
            try:
                yield self.call(plugin, hook, ask, plugin)
            except PipelineError as error:
                if failures is None:
                    raise
                failures.append(error)

    def _overrun(self, plugin: Plugin, hook: str, overrun: Overrun) -> PluginOverrun:
        self._calls.failed(plugin.name, hook, "overran")
        return PluginOverrun(plugin.name, hook, str(self._key), str(overrun))

    def _error(self, plugin: Plugin, hook: str, cause: BaseException | str, kind: FailureKind) -> PluginError:
        self._calls.failed(plugin.name, hook, kind)
        return PluginError(plugin.name, hook, str(self._key), cause)

    def _measured(self, plugin: Plugin, hook: str) -> float:
        now_s = self._ctx.monotonic()
        took_s, self._since_s = now_s - self._since_s, now_s
        self._calls.took(plugin.name, hook, took_s)
        self.durations[plugin.name] = self.durations.get(plugin.name, 0.0) + took_s
        if took_s > HOOK_BUDGET_S:
            self._ctx.log.warning(
                "plugin.slow",
                plugin=plugin.name,
                hook=hook,
                trainjob=str(self._key),
                took_s=took_s,
                budget_s=HOOK_BUDGET_S,
            )
        return took_s


def plan(registry: Registry, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> Plan:
    """
    Build phase: the objects that should exist for *job* on *runtime*, complete and in the order to apply them.

    Raises:
        PlanError: They cannot be built; the message is for the user.
        PluginError: A plugin failed, or two contradict each other.
    """
    registry.slots.require(runtime)
    info = prepare(job, runtime, ctx.merged)
    caller = _Caller(registry, job, ctx, info)
    for gang in registry.pod_group_policies:
        caller.call(gang, "EnforcePodGroupPolicy", gang.enforce_pod_group_policy, info, ctx)
    for policy in registry.ml_policies:
        caller.call(policy, "EnforceMLPolicy", policy.enforce_ml_policy, info, ctx)
    for pod_spec in registry.pod_specs:
        caller.call(pod_spec, "EnforcePodSpec", pod_spec.enforce_pod_spec, info, ctx)
    for network in registry.pod_networks:
        caller.call(network, "PodNetwork", network.pod_network, info, ctx)
    components = caller.every("ComponentBuilder", registry.builders, lambda builder: builder.build(info, ctx))
    return Plan(components, info.journal, caller.durations)


def validate(
    registry: Registry, job: TrainJob, old: TrainJob | None, runtime: RuntimeSpec | None, ctx: Context
) -> Findings:
    """
    PreExecution phase: what all plugins have to say against *job*, which replaces *old* (None: it is new).

    Raises:
        PluginError: A plugin failed.
    """
    # An update may come when the runtime has changed, under a job that runs on what it was.
    untaken = registry.slots.check(runtime) if runtime and old is None else Findings()
    if untaken.errors:
        return untaken  # no plugin is asked about a configuration that its schema refuses
    info, malformed = None, ""
    try:
        info = prepare(job, runtime, ctx.merged) if runtime else None
    except PlanError as error:
        malformed = str(error)  # plugins tolerate an absent Info
    caller = _Caller(registry, job, ctx, info)
    findings = Findings()
    for validator in registry.validations:
        findings += caller.call(validator, "CustomValidation", validator.validate, info, job, old, ctx)
    if malformed and old is None and not findings.errors:
        # It can never be built. (An update may be what mends it, or it runs on a runtime that was another.)
        return Findings((forbidden("spec", malformed),), findings.warnings)
    return findings


def validate_runtime(registry: Registry, name: Key, runtime: RuntimeSpec, ctx: Context) -> Findings:
    """
    PreExecution phase: the plugins' errors and warnings about a runtime itself, which is called *name*.

    Raises:
        PluginError: A plugin failed.
    """
    if not registry.runtime_validations:
        return Findings()
    try:
        info = prepare(TrainJob(), runtime)
    except PlanError:
        return Findings()  # every TrainJob that refers to it gets the reason
    caller = _Caller(registry, TrainJob(metadata=ObjectMeta(name=name.name, namespace=name.namespace)), ctx, info)
    findings = Findings()
    for validator in registry.runtime_validations:
        findings += caller.call(validator, "RuntimeValidation", validator.validate_runtime, info, ctx)
    return findings


def terminal_condition(registry: Registry, job: TrainJob, ctx: Context, failures: Failures = None) -> Condition | None:
    """PostExecution phase: the end of *job*, from the first plugin that knows it; None while it runs."""
    plugins, caller = registry.terminal_conditions, _Caller(registry, job, ctx)
    return caller.first("TerminalCondition", plugins, lambda p: p.terminal_condition(job, ctx), failures)


def conditions(registry: Registry, job: TrainJob, ctx: Context, failures: list[PipelineError]) -> tuple[Condition, ...]:
    """
    PostExecution phase: the conditions that plugins set on *job*, of one type one.

    A plugin that fails, sets a type that another one sets, or sets more than the status has room for is put into
    *failures*; what the others say counts.
    """
    if not registry.conditions:
        return ()
    caller = _Caller(registry, job, ctx)
    found: dict[str, tuple[str, Condition]] = {}
    present = {one.type for one in job.status.conditions if one.type not in CONDITIONS}
    for plugin in registry.conditions:
        try:
            theirs = caller.call(plugin, "Conditions", plugin.conditions, job, ctx)
        except PipelineError as error:
            failures.append(error)
            continue
        for one in theirs:
            owner, _ = found.get(one.type, (plugin.name, one))
            if owner != plugin.name:
                problem = f"plugin {owner} sets the condition {one.type}, too; only one plugin may set it"
                failures.append(PluginError(plugin.name, "Conditions", str(job.key), problem))
            elif len(present | {*found, one.type}) > _MOST_CONDITIONS:
                problem = (
                    f"there is no room for its condition {one.type}: a TrainJob has at most {_MOST_CONDITIONS}"
                    " conditions besides Kubeflow's; set fewer types of conditions"
                )
                failures.append(PluginError(plugin.name, "Conditions", str(job.key), problem))
            else:
                found[one.type] = (plugin.name, one)
    return tuple(one for _, one in found.values())


def jobs_status(
    registry: Registry, job: TrainJob, ctx: Context, failures: Failures = None
) -> tuple[JobStatus, ...] | None:
    """PostExecution phase: the counters of *job*, from the first plugin that has some; None if none has."""
    caller = _Caller(registry, job, ctx)
    return caller.first("Status", registry.statuses, lambda p: p.jobs_status(job, ctx), failures)


def size(registry: Registry, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> Size | None:
    """PostExecution phase: the size of *job*, from the first plugin that makes it elastic; None if none does."""
    return _Caller(registry, job, ctx).first("Elasticity", registry.elasticities, lambda p: p.size(job, runtime, ctx))


def gangs(registry: Registry, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> tuple[Gang, ...]:
    """PostExecution phase: what schedulers need of *job* while it runs, of all plugins."""
    return _Caller(registry, job, ctx).every("Gangs", registry.gangs, lambda p: p.gangs(job, runtime, ctx))


def upkeep(registry: Registry, job: TrainJob, runtime: RuntimeSpec, ctx: Context) -> tuple[Address, ...]:
    """PostExecution phase: what *job* goes on needing, while it runs, of what plugins build."""
    return _Caller(registry, job, ctx).every("Upkeep", registry.upkeeps, lambda p: p.upkeep(job, runtime, ctx))


def removals(registry: Registry, job: TrainJob, ctx: Context, failures: Failures = None) -> tuple[Removal, ...]:
    """PostExecution phase: what has to go while *job* does not run."""
    caller = _Caller(registry, job, ctx)
    return caller.every("CleanUp", registry.clean_ups, lambda p: p.removals(job, ctx), failures)
