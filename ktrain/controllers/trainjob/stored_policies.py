"""
Policies of a JobSet, repeated as they are stored. Pure.

Problem: admission adds defaults to the items of `volumeClaimPolicies` and of `failurePolicy.rules`. Server-side apply
replaces these lists as a whole, so an apply of what was built would remove the defaults. The schema of JobSets refuses
that change (`Value is immutable`), and the JobSet could be neither resumed nor patched. Defaults outside of lists are
safe: an apply leaves fields alone that others have set.

Choice: if the stored policy says all that the built one says, the stored one is sent. If it does not, the built one is
sent: the API server refuses the change, and the TrainJob's diagnosis says so.

Rejected: to build the defaults here, because versions of JobSet, and other webhooks, add different ones; and to leave
the policy out of the second apply, because that removes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.typed import as_typed

if TYPE_CHECKING:
    from ktrain.api.meta import Json, JsonValue

_POLICIES: Final = ("failurePolicy", "startupPolicy", "volumeClaimPolicies")
"""Fields of a JobSet's spec that cannot change and hold lists of objects."""


def may_differ(built: Json) -> bool:
    """Whether a policy of the JobSet *built* has a list, to which admission may have added something."""
    return any(_has_objects(built["spec"].get(field)) for field in _POLICIES)


def repeated(built: Json, live: Json) -> Json:
    """Return the JobSet *built*, with those policies of the stored JobSet *live* that say the same or more."""
    spec, stored = built["spec"], live["spec"]
    said = as_typed({field: spec[field] for field in _POLICIES if field in spec})
    same = {field: stored[field] for field, policy in said.items() if _holds(stored.get(field), policy)}
    return built | {"spec": spec | same}


def _holds(stored: JsonValue, said: JsonValue) -> bool:
    """Whether *stored* has all that is said. Admission may have added fields, and may have filled empty texts."""
    if isinstance(said, dict):
        return isinstance(stored, dict) and all(_holds(stored.get(key), value) for key, value in said.items())
    if isinstance(said, list):
        return isinstance(stored, list) and len(stored) == len(said) and all(map(_holds, stored, said))
    return said in (None, "") or bool(stored == said)


def _has_objects(policy: JsonValue) -> bool:
    lists = policy.values() if isinstance(policy, dict) else (policy,)
    return any(isinstance(item, dict) for each in lists if isinstance(each, list) for item in each)
