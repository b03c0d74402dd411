"""
The built-in kinds: which are served (`table.py`, `stored.py`), how each behaves, and what exists from the start.

A strategy is one module for each family of kinds, a folder for pods; some share `indexes.py` and `templates.py`.
"""

from ktrain.local.apiserver.builtins.bootstrap import bootstrap as bootstrap
from ktrain.local.apiserver.builtins.stored import FEATURES as FEATURES
from ktrain.local.apiserver.builtins.table import RESOURCES as RESOURCES
