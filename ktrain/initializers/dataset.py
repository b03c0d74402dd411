"""`python -m ktrain.initializers.dataset`: fetches the dataset at `STORAGE_URI` into `/workspace/dataset`."""

from __future__ import annotations

import sys
from typing import Final

from .program import Step, main

DATASET: Final = Step("dataset")

if __name__ == "__main__":
    sys.exit(main(DATASET))
