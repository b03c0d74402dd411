"""
Quotas at work: nothing is created that would use more of a namespace than its ResourceQuotas give it.

What is used is counted when it is asked for, in the same step that commits; so unlike upstream no two writers can each
take the last of something, and a wrong number in a status misleads nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import quantity
from ktrain.local.apiserver.builtins.quotas.usage import in_scope, missing_of, usage_of, used
from ktrain.local.apiserver.builtins.values.amounts import read
from ktrain.local.apiserver.errors import forbidden

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend
    from ktrain.local.apiserver.builtins.values.amounts import Amounts
    from ktrain.local.apiserver.registry import ServedResource

COLLECTION: Final = "resourcequotas"


def check(resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> None:
    """
    Hold a write to the quotas of its namespace.

    Raises:
        StatusError: 403, in the words of the first quota that it breaks.
    """
    quotas = backend.store.collection(COLLECTION)
    if not len(quotas) or not resource.namespaced:
        return
    for _, item in quotas.entries(obj["metadata"].get("namespace", "")):
        problem = _problem(item.obj, resource, obj, old, backend)
        if problem:
            raise forbidden(resource, obj["metadata"].get("name", ""), problem)


def _problem(quota: Json, resource: ServedResource, obj: Json, old: Json | None, backend: Backend) -> str:
    collection, name = resource.collection, quota["metadata"]["name"]
    hard = read(quota["spec"].get("hard"))
    usage = usage_of(collection, obj)
    if not in_scope(quota, collection, obj):
        return ""
    if collection == "pods" and old is None and (missing := missing_of(obj, hard)):
        wanted = "; ".join(f"{what} for: {','.join(sorted(names))}" for what, names in missing.items())
        return f"failed quota: {name}: must specify {wanted}"
    before = usage_of(collection, old) if old is not None and in_scope(quota, collection, old) else {}
    more = {what: amount - before.get(what, 0) for what, amount in usage.items() if what in hard}
    more = {what: amount for what, amount in more.items() if amount > 0}
    if not more:
        return ""
    taken = used(quota, backend)
    over = [what for what, amount in more.items() if taken[what] + amount > hard[what]]
    if not over:
        return ""
    units = quota["spec"]["hard"]
    shown = [_shown({what: part[what] for what in over}, units) for part in (more, taken, hard)]
    return "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(name, *shown)


def _shown(part: Amounts, units: Json) -> str:
    return ",".join(f"{what}={quantity.format_quantity(part[what], like=units[what])}" for what in sorted(part))
