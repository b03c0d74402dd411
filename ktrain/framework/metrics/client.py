"""Instruments of a client. The names are client-go's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .registry import CountBy, Observe, nothing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .registry import Metrics

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
DURATION_BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
"""Seconds."""
SIZE_BUCKETS: Final = tuple(64.0 * 4**n for n in range(10))
"""Bytes, up to 16 MiB."""

_NONE: Final[Mapping[str, Observe]] = {}


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """What a client counts. The mappings are by method, and empty unless details are wanted."""

    host: str = ""
    requests: CountBy = nothing
    """Count one attempt: code (`<error>` without an answer), method, host."""
    retries: CountBy = nothing
    """Count one more attempt: code of the one before, method, host."""
    waited: Observe = nothing
    """Seconds that a call waited for its turn."""
    durations: Mapping[str, Observe] = field(default_factory=lambda: _NONE)
    """Seconds of one attempt."""
    request_sizes: Mapping[str, Observe] = field(default_factory=lambda: _NONE)
    """Bytes."""
    response_sizes: Mapping[str, Observe] = field(default_factory=lambda: _NONE)
    """Bytes."""

    @classmethod
    def of(cls, metrics: Metrics, host: str = "", *, detailed: bool = False) -> ClientMetrics:
        """Make them; `detailed` adds the three histograms by method, which multiply series."""

        def by_method(name: str, text: str, buckets: tuple[float, ...]) -> Mapping[str, Observe]:
            if not detailed:
                return _NONE
            labels = [{"verb": method, "host": host} for method in METHODS]
            return {each["verb"]: metrics.histogram(name, text, buckets, each) for each in labels}

        return cls(
            host=host,
            requests=metrics.counter_by(
                "rest_client_requests",
                "Number of requests sent to the API server, retries included, by status code, method and host.",
                "code",
                "method",
                "host",
            ),
            retries=metrics.counter_by(
                "rest_client_request_retries",
                "Number of requests that repeat an earlier one, by the status code of the earlier one.",
                "code",
                "verb",
                "host",
            ),
            waited=metrics.histogram(
                "rest_client_rate_limiter_duration_seconds",
                "Seconds that calls to the API server waited for their turn; calls that did not wait are left out.",
                DURATION_BUCKETS,
                {"host": host},
            ),
            durations=by_method(
                "rest_client_request_duration_seconds",
                "Seconds that a request to the API server took.",
                DURATION_BUCKETS,
            ),
            request_sizes=by_method(
                "rest_client_request_size_bytes", "Bytes of the bodies of requests to the API server.", SIZE_BUCKETS
            ),
            response_sizes=by_method(
                "rest_client_response_size_bytes", "Bytes of the answers of the API server.", SIZE_BUCKETS
            ),
        )
