"""
Functions that Kubeflow's SDK sends, and where they run.

The SDK makes a shell script of a function: it writes the source into a file that is named like the one the function
was defined in, and runs that. In an image this is harmless. Here pods work in the user's directory, so that the script
would replace the very file the function came from, and two pods of a job would write it under each other's hands. A
container with such a script therefore starts in the temporary directory of its pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_READS_SOURCE: Final = "read -r -d '' SCRIPT << EOM"
_WRITES_SOURCE: Final = 'printf "%s" "$SCRIPT" > "'


def writes_its_program(argv: Sequence[str]) -> bool:
    """Whether a command line is a function's, as the SDK sends it."""
    return any(_READS_SOURCE in word and _WRITES_SOURCE in word for word in argv)
