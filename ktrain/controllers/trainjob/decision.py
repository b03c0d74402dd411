"""What a pass decides: what is to be asked, written, told and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .observe import Check

if TYPE_CHECKING:
    from ktrain.api import trainer as api
    from ktrain.pipeline import Removal, Size
    from ktrain.plugins.jobset import JobSetState

    from .elastic import Resize
    from .observe import Failure, Stall
    from .snapshot import Snapshot
    from .writing import Apply


class Decision(msgspec.Struct, frozen=True):
    """What to do, in the order of the fields. The default is: nothing."""

    check: Check = Check.NONE
    """Ask these first, then decide again. If there is no answer, what the status says holds without it."""
    built: tuple[Apply, ...] = ()
    """With `Check.COMPONENTS`: what to compare."""
    snapshot: Snapshot | None = None
    """Create the snapshot: one of the job's own beside what follows."""
    shared: bool = False
    """As a shared one."""
    applies: tuple[Apply, ...] = ()
    resize: Resize | None = None
    """Change the size of the running JobSet."""
    stops: JobSetState | None = None
    """Suspend this JobSet: as it is, if it is not among what is written."""
    is_built: bool = True
    """Whether what is to be written could be built."""
    is_held: bool = False
    """Whether some of it waits for an object that has to come, or to go, first."""
    failure: Failure | None = None
    stall: Stall | None = None
    """What is known of a JobSet that stands still."""
    unused: tuple[str, ...] = ()
    """Report that these fields of a new job have no effect: where webhooks are off, nothing else does."""
    size: Size | None = None
    """Of an elastic job; None also if nobody can tell now."""
    status: api.TrainJobStatus | None = None
    """The desired status, but for the diagnosis."""
    removals: tuple[Removal, ...] = ()
    """Delete these, after the status is stored."""
    requeue_after_s: float | None = None
