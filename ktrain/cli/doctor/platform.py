"""The Kubernetes release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from .finding import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .cluster import Cluster
    from .finding import Finding

TESTED: Final = (35, 36)
"""Minor releases of Kubernetes 1 that ktrain's tests run on, first and last."""
OLDEST: Final = 33
"""What JobSet 0.12 is made for; Jobs lack fields that it sets before."""

_report: Final = Reporter("kubernetes")


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Compare the API server's release with those that ktrain is tested on."""
    answer = await cluster.client.raw("GET", "/version")
    version = str(msgspec.json.decode(answer.body).get("gitVersion", ""))
    found = re.match(r"v1\.(\d+)", version)
    minor = int(found[1]) if found else 0
    first, last = TESTED
    if minor < OLDEST:
        yield _report.error("API server", f"Kubernetes {version} is too old", f"upgrade it to 1.{OLDEST} or newer")
    elif not first <= minor <= last:
        why = f"Kubernetes {version}; ktrain is tested on 1.{first} to 1.{last}"
        yield _report.warning("API server", why, "try it in a test cluster first")
    else:
        yield _report.ok("API server", f"Kubernetes {version}")
