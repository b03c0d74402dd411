"""
What `startupPolicy.rules` may say (KEP-672, which no release of JobSet has).

Every replicated job but the last is in exactly one rule; the last may be. Rules are an order, so they need
`startupPolicyOrder: InOrder`, beside which the schema refuses dependsOn. That a rule names its replicated jobs and a
known status is the schema's, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.schema.causes import duplicate, forbidden, invalid, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


def startup_errors(policy: Json, replicated_jobs: list[str]) -> Iterator[Cause]:
    """Everything that is wrong with the rules of a startup policy."""
    rules: list[Json] = policy.get("rules") or []
    if not rules:
        return
    path = "spec.startupPolicy.rules"
    if policy.get("startupPolicyOrder") != "InOrder":
        yield forbidden(path, "rules are an order: startupPolicyOrder must be InOrder")
    seen: set[str] = set()
    for index, rule in enumerate(rules):
        for place, name in enumerate(rule.get("targetReplicatedJobs") or []):
            at = f"{path}[{index}].targetReplicatedJobs[{place}]"
            if name not in replicated_jobs:
                yield invalid(at, name, "there is no such replicatedJob")
            elif name in seen:
                yield duplicate(at, name)
            seen.add(name)
    for name in replicated_jobs[:-1]:
        if name not in seen:
            yield required(path, f"every replicatedJob but the last must be in a rule, and {name} is in none")
