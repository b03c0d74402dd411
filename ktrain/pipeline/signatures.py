"""What a plugin's class looks like: whether its hooks can be called, and names that are probably misspelt."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from . import points
from .errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .points import Plugin

HOOKS: Final = {
    method: tuple(inspect.signature(function).parameters)[1:]
    for point in points.EXTENSION_POINTS
    for method, function in vars(point).items()
    if not method.startswith("_")
}
"""The names of the arguments of each hook, all of which are given by position."""
_ATTRIBUTES: Final = ("name", "before", "after", "rbac", "schemas")
_SIMILAR: Final = 0.85
"""`enforce_mlpolicy` and `enforce_ml_policy` are more alike than this, two hooks are less."""


def check_hooks(plugin: Plugin) -> None:
    """
    Make sure that hooks can be called as they will be, and answer at once.

    Raises:
        RegistryError: One does not.
    """
    for hook, arguments in HOOKS.items():
        function = getattr(plugin, hook, None)
        if function is None:
            continue
        if not callable(function):
            raise RegistryError(f"its `{hook}` is no method")
        if inspect.iscoroutinefunction(function):
            raise RegistryError(f"its `{hook}` is a coroutine function, and hooks are synchronous")
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            continue  # written in C, for example: it has none
        try:
            signature.bind(*arguments)
        except TypeError:
            raise RegistryError(
                f"its `{hook}` takes {signature}, and is called with ({', '.join(arguments)})"
            ) from None


def misspelt(plugin: Plugin) -> Iterator[str]:
    """Yield what is probably meant as a hook or attribute of a plugin, and is none."""
    known = (*HOOKS, *_ATTRIBUTES)
    for name in dir(type(plugin)):
        if name.startswith("_") or name in known:
            continue
        if meant := get_close_matches(name, known, 1, _SIMILAR):
            yield f"its `{name}` is never used; `{meant[0]}` would be"
