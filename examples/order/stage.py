"""
One stage of a job whose stages start one after the other; it says when it began, and when it was ready or had ended.

A stage that is waited for until it is Ready goes on (`--serve`): it writes a file when it can be used, for which its
readiness probe looks.
"""

import argparse
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path


def say(stage, what):
    print(f"{stage} {what} at {datetime.now(UTC).isoformat(timespec='milliseconds')}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Be one stage of a job.")
    parser.add_argument("stage", help="its name")
    parser.add_argument("--work", type=float, default=1.0, help="seconds until it is done, or ready")
    parser.add_argument("--serve", action="store_true", help="go on when it is ready")
    options = parser.parse_args()

    say(options.stage, "began")
    time.sleep(options.work)
    if not options.serve:
        say(options.stage, "ended")
        return
    say(options.stage, "was ready")
    Path(tempfile.gettempdir(), "ready").touch()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
