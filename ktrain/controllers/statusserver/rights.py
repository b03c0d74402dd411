"""The rights of the status server, beside those of the TrainJob controller."""

from __future__ import annotations

from typing import Final

from ktrain.api.rbac import Right
from ktrain.framework.serving.authorization import TOKEN_REVIEWS

RIGHTS: Final = (Right("cluster", TOKEN_REVIEWS),)
