"""What a failure policy may say. Patterns are not looked at: one that is no RE2 matches nothing when the time comes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .policies import RESTART_JOB_ACTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ktrain.api.meta import Json

    from .gates import Gates

MAX_SINGLE_JOBS: Final = 1024
"""Replicas of which each may be restarted alone: the status has a number for each."""
_MAX_NAME: Final = 128
_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASONS: Final = frozenset(
    {"BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"}
)


def failure_policy_errors(policy: Json, replicated_jobs: Sequence[Json], gates: Gates) -> Iterator[str]:
    """Everything that is wrong with the rules; only the feature gate, if it is what is missing."""
    rules: list[Json] = policy.get("rules") or []
    if any(rule.get("action") in RESTART_JOB_ACTIONS for rule in rules):
        if not gates.restart_job:
            yield (
                "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when RestartJob"
                " feature gate is disabled"
            )
            return
        if any(rj.get("replicas", 1) > MAX_SINGLE_JOBS for rj in replicated_jobs):
            yield (
                "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action and"
                f" a replicated job with replicas > {MAX_SINGLE_JOBS}"
            )
    names = [rj["name"] for rj in replicated_jobs]
    for rule in rules:
        yield from _rule_errors(rule, names)
    yield from _duplicates([rule["name"] for rule in rules])


def _rule_errors(rule: Json, replicated_jobs: Collection[str]) -> Iterator[str]:
    name: str = rule["name"]
    length = len(name.encode())
    if not 1 <= length <= _MAX_NAME:
        yield (
            f"invalid failure policy rule name of length {length}, the rule name must be at least 1 characters long"
            f" and at most {_MAX_NAME} characters long"
        )
    if not _NAME.fullmatch(name):
        yield (
            f"invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic"
            " character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an"
            " alphanumeric character or '_'"
        )
    for target in rule.get("targetReplicatedJobs") or []:
        if target not in replicated_jobs:
            yield (f"invalid replicatedJob name '{target}' in failure policy does not appear in .spec.ReplicatedJobs")
    for reason in rule.get("onJobFailureReasons") or []:
        if reason not in _REASONS:
            yield f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"


def _duplicates(names: list[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        indices = [str(index) for index, other in enumerate(names) if other == name]
        if len(indices) > 1:
            yield f"rule names are not unique, rules with indices [{' '.join(indices)}] all have the same name '{name}'"
