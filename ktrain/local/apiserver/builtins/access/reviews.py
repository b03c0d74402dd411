"""The kinds that only answer questions about users and their rights: POST alone, and nothing is ever stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.access import access_reviews, reviews
from ktrain.local.apiserver.registry import ServedResource
from ktrain.local.apiserver.strategy import ORDINARY

if TYPE_CHECKING:
    from ktrain.local.apiserver.registry import Review

_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"


def _reviewed(group: str, kind: str, review: Review, *, namespaced: bool = False) -> ServedResource:
    return ServedResource(
        group=group,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=namespaced,
        strategy=ORDINARY,
        verbs=("create",),
        review=review,
        storage_version="v1",
    )


REVIEWS: Final = (
    _reviewed(_AUTHENTICATION, "SelfSubjectReview", reviews.review_self),
    _reviewed(_AUTHENTICATION, "TokenReview", reviews.review_token),
    _reviewed(_AUTHORIZATION, "LocalSubjectAccessReview", access_reviews.review_local_subject, namespaced=True),
    _reviewed(_AUTHORIZATION, "SelfSubjectAccessReview", access_reviews.review_self_access),
    _reviewed(_AUTHORIZATION, "SelfSubjectRulesReview", access_reviews.review_self_rules),
    _reviewed(_AUTHORIZATION, "SubjectAccessReview", access_reviews.review_subject),
)
