"""CEL expressions, compiled once and evaluated through the `common-expression-language` package (a Rust extension)."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Final

from .functions import functions_for

if TYPE_CHECKING:
    from types import ModuleType

    from ..meta import Json, JsonValue

_BOUND: Final = re.compile(r"\.(?:all|exists|exists_one|map|filter|optMap|optFlatMap)\(\s*(\w+)\s*,")
_GLOBALS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "format", "int", "list", "map", "null_type", "optional"}
    | {"string", "timestamp", "type", "uint"}
)


class CelError(Exception):
    """An expression that does not compile, or that failed on a value. The text is CEL's own where there is one."""


@lru_cache(maxsize=1)
def _extension() -> ModuleType:
    # The package's __init__ also loads its command line, with prompt_toolkit: a quarter of a second for nothing.
    package = find_spec("cel")
    spec = PathFinder.find_spec("cel.cel", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        raise CelError("common-expression-language is not installed")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Expression:
    """One compiled expression."""

    def __init__(self, source: str) -> None:
        """
        Compile the expression.

        Raises:
            CelError: If its syntax is wrong.
        """
        try:
            self._program = _extension().compile(source)
        except ValueError as error:
            raise CelError(str(error).partition(": ")[2]) from error
        references = self._program.references()
        self.variables: Final = frozenset(references["variables"])
        self._functions = functions_for(references["functions"], _extension().OptionalValue)
        self.source: Final = source

    @cached_property
    def undeclared(self) -> list[str]:
        """Variables that are neither self, oldSelf, nor bound inside."""
        bound = set(_BOUND.findall(self.source))
        return sorted(self.variables - bound - _GLOBALS - {"self", "oldSelf"})

    def evaluate(self, variables: Json) -> JsonValue:
        """
        The value of the expression.

        Raises:
            CelError: If it has none: a key or index that is not there, operands that do not fit.
        """
        context: JsonValue = variables
        if self._functions:
            context = _extension().Context({"format": "format", **variables}, self._functions)
        try:
            return self._program.execute(context)
        except KeyError as error:
            raise CelError(f"no such key: {error.args[0]}") from error
        except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as error:
            raise CelError(str(error)) from error


@lru_cache(maxsize=2048)
def compiled(source: str) -> Expression:
    """
    The expression, compiled once.

    Raises:
        CelError: If its syntax is wrong.
    """
    return Expression(source)


def optional(*value: JsonValue) -> JsonValue:
    """CEL's optional: of the value given, or none."""
    kind = _extension().OptionalValue
    return kind.of(value[0]) if value else kind.none()
