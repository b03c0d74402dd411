"""Answers of the API server, in short; those of the real one are recorded with KTRAIN_RECORD=1."""

import json
import os
import re
from pathlib import Path

HERE = Path(__file__).parent
_DIFFERENCE = re.compile(r"(if it was previously negative\)).*", re.DOTALL)
"""What a refused change shows of the objects: a comparison of what no client sees."""


def in_short(said):
    """How a server answered: its complaints, or the spec that it would store; and what it warned of."""
    warnings = sorted(re.findall(r'299 - "((?:[^"\\]|\\.)*)"', said.warnings))
    if said.status < 300:
        answer = {"status": said.status, "spec": _spec(said.body)}
    else:
        answer = {"status": said.status, "causes": _causes(said.body.get("details", {}))}
    return {**answer, "warnings": warnings} if warnings else answer


def check(part, name, plane, seen):
    """Compare an answer with the recorded one, or record it."""
    file = HERE / "recorded" / f"{part}.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    if os.environ.get("KTRAIN_RECORD") and plane.is_real:
        known |= {name: seen}
        lines = [f"{json.dumps(key)}: {json.dumps(known[key], sort_keys=True)}" for key in sorted(known)]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    assert seen == known[name]


def _causes(details):
    found = {
        (cause.get("field", ""), cause["reason"], _DIFFERENCE.sub(r"\1", cause["message"]))
        for cause in details.get("causes", ())
    }
    return [list(cause) for cause in sorted(found)]


def _spec(body):
    """Return the pod's spec but for its containers, and for the account that only one of the servers fills in."""
    spec = body["spec"]
    while "template" in spec or "jobTemplate" in spec:
        spec = (spec.get("template") or spec["jobTemplate"])["spec"]
    dropped = {"containers"}
    if spec.get("serviceAccountName") == "default":
        dropped |= {"serviceAccountName", "serviceAccount"}
    return {name: value for name, value in spec.items() if name not in dropped}
