"""
Tokens of a pod's service account, for its projected volumes (TokenRequest, authentication.k8s.io/v1).

Each is bound to the pod, so it is worth nothing once the pod is gone. It is asked for again when four fifths of its
life, or a day, have passed (the kubelet's rule); readers of the file see the new one with the volume's next refresh.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.framework import Client
    from ktrain.framework.env import Clock

    from .spec import Pod
    from .volume_spec import ServiceAccountToken

RENEW_AT: Final = 0.8
_AT_MOST: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Issued:
    token: str
    renew_at: datetime


class PodTokens:
    """The tokens of one pod, by audience and lifetime. Owned by its worker; not safe for concurrent use."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._issued: dict[ServiceAccountToken, _Issued] = {}

    async def fetch(self, pod: Pod, wanted: Iterable[ServiceAccountToken]) -> Mapping[ServiceAccountToken, str]:
        """
        Return the tokens that projections ask for, new ones where they are missing or old.

        Raises:
            FrameworkError: The API server refused or did not answer.
        """
        return {one: await self._token(pod, one) for one in wanted}

    async def _token(self, pod: Pod, wanted: ServiceAccountToken) -> str:
        now = self._clock.now()
        issued = self._issued.get(wanted)
        if issued is None or now >= issued.renew_at:
            issued = self._issued[wanted] = await self._request(pod, wanted, now)
        return issued.token

    async def _request(self, pod: Pod, wanted: ServiceAccountToken, now: datetime) -> _Issued:
        account, namespace = pod.spec.service_account_name or "default", pod.metadata.namespace
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.uid}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [wanted.audience] if wanted.audience else [],
                "expirationSeconds": wanted.expiration_seconds,
                "boundObjectRef": bound,
            },
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        status = json.loads((await self._client.raw("POST", path, body=body)).body)["status"]
        life = datetime.fromisoformat(status["expirationTimestamp"]) - now
        return _Issued(status["token"], now + min(life * RENEW_AT, _AT_MOST))
