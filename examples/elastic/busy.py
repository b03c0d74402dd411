"""
Work until another node has joined, to see an autoscaler at work.

It needs no PyTorch. The work is a child's, as it is a worker's under torchrun. The first node ends as soon as it has
company, and with it the job.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

WORK = "import pathlib, sys\nwhile not pathlib.Path(sys.argv[1]).exists(): sum(range(1000))"


def main():
    parser = argparse.ArgumentParser(description="Work until another node has joined.")
    parser.add_argument("--company", type=Path, required=True, help="a file that all nodes share")
    options = parser.parse_args()

    if os.environ["JOB_COMPLETION_INDEX"] == "0":
        options.company.unlink(missing_ok=True)
    else:
        options.company.touch()
        print("a node has joined", flush=True)
    subprocess.run([sys.executable, "-c", WORK, options.company], check=True)
    print("the work is done", flush=True)


if __name__ == "__main__":
    main()
