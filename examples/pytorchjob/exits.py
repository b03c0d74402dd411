"""End with a given exit code at the first attempt of the first node, and with success at every other."""

import argparse
import os
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description="End as asked.")
    parser.add_argument("--first", type=int, required=True, help="exit code of the first attempt")
    parser.add_argument("--marker", type=Path, required=True, help="a file that says that there was one")
    options = parser.parse_args()

    if os.environ["PET_NODE_RANK"] != "0":
        return 0
    if options.marker.exists():
        print("the second attempt succeeds", flush=True)
        return 0
    options.marker.touch()
    print(f"the first attempt ends with {options.first}", flush=True)
    return options.first


if __name__ == "__main__":
    sys.exit(main())
