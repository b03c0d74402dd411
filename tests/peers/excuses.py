"""What differs on purpose between random cases, as the form of its line, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .rounds import Case


class Excuse(NamedTuple):
    """One reason to differ."""

    line: str
    why: str
    policy: str = ""
    """Only under this ML policy."""
    untouched: str = ""
    """Only if the step does not name this field of the spec."""
    ends: bool = False
    """Whether nothing that follows can be the same."""


LATER = "a release after 2.3.0 does as ktrain does"
ANEW = "Go's webhook writes a job with patches anew, and then its definition takes the new spelling for a change"
EXCUSES = (
    Excuse(r"\d+/JobSet/job/.*/env\b", "the order of XGBoost's and the user's variables is a hash's in Go", "xgboost"),
    Excuse(r"\d+ answers/.*characters too long: a (pod|Job) would be called", "Go finds out too late", ends=True),
    Excuse(r"\d+ answers/.*, ktrain .*\.name: Required value", "Go's webhook says that it is empty", ends=True),
    Excuse(r"\d+ answers/.*kept although this update takes it away", "what only Kueue would write", ends=True),
    Excuse(r"\d+ answers/job\[1\]: Go 400, ktrain 422", "Go's decoder refuses what here the schema does", ends=True),
    *(
        Excuse(
            rf'\d+ answers/.*: Go .*"spec\.{field}: Invalid value: field is immutable"',
            ANEW,
            untouched=field,
            ends=True,
        )
        for field in ("trainer", "initializer")
    ),
    Excuse(
        r"[2-9]/JobSet/job/.*/template/(spec/template/)?metadata(/labels|/annotations)?: Go \{.*, ktrain null",
        "Go cannot take the last label or annotation away, and no patch that comes after reaches the JobSet",
        ends=True,
    ),
    Excuse(
        r"[2-9]/JobSet/job/spec/suspend: Go false, ktrain true",
        "where the JobSet cannot take a patch, Go does not suspend it either",
        ends=True,
    ),
    Excuse(
        r"[1-9] answers/.*must not have (replicated job|container|initContainer) that doesn't exist in the runtime job",
        "Go checks patches against the patched template, where all names exist",
        ends=True,
    ),
    Excuse(
        r'\d/TrainJob/job/status/conditions: Go .*"type": "(Complete|Failed)"\}, \{.*"TrainJob is suspended".*, ktrain',
        "a finished job does not change any more",
    ),
    Excuse(r"0 answers/.*(numProcPerNode: Invalid value|replicas in body should be greater)", LATER, ends=True),
    Excuse(r"1 answers/.*(numProcPerNode: Invalid value|numNodes in body should be greater)", LATER, ends=True),
)


def excuse(case: Case, line: str) -> Excuse | None:
    """Return the reason why this line may differ; None if there is none."""
    policy = case.runtime["spec"].get("mlPolicy") or {}
    at = int(re.split(r"\D", line)[0]) - 2
    said = case.changes[at].get("patch") if 0 <= at < len(case.changes) else None
    named = (said or {}).get("spec") or {}
    for one in EXCUSES:
        if re.match(one.line, line) and (not one.policy or one.policy in policy) and one.untouched not in named:
            return one
    return None
