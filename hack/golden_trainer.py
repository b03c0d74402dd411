"""
Runs the recorded cases of the Trainer without what ktrain's status has besides upstream's.

    python hack/golden_trainer.py DIR/check.py [options of check.py]

A TrainJob's status shows a state, its nodes and restarts, which Kubeflow's operator does not know. They are taken out
of what is read; everything else is compared as recorded.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

OWN = ("state", "nodes", "restarts")


def main() -> int:
    path = sys.argv.pop(1)
    spec = spec_from_file_location("check", path)
    assert spec is not None
    assert spec.loader is not None
    check = module_from_spec(spec)
    spec.loader.exec_module(check)

    class Norm(check.Norm):  # type: ignore[misc, name-defined]  # loaded at run time
        def obj(self, kind: str, o: dict[str, Any]) -> object:
            if kind == "TrainJob" and "status" in o:
                status = {key: value for key, value in o["status"].items() if key not in OWN}
                o = {key: value for key, value in o.items() if key != "status"} | ({"status": status} if status else {})
            return super().obj(kind, o)

    check.Norm = Norm  # type: ignore[attr-defined]  # what the cases read objects with
    result: int = check.main()
    return result


if __name__ == "__main__":
    sys.exit(main())
