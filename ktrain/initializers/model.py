"""
`python -m ktrain.initializers.model`: fetches the model at `STORAGE_URI` into `/workspace/model`.

Weights in formats that training does not read are left out. Of the Hub only known formats are fetched at all.
"""

from __future__ import annotations

import sys
from typing import Final

from .program import Step, main

MODEL: Final = Step(
    "model",
    hub_allow=("*.json", "*.safetensors", "*.model", "*.txt", "*.gguf"),
    ignore=("*.msgpack", "*.h5", "*.bin", "*.pt", "*.pth"),
)

if __name__ == "__main__":
    sys.exit(main(MODEL))
