"""The operator's own certificate (`certManagement.enable`): made, kept, renewed and announced, for all its servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.api.rbac import Right, Rule
from ktrain.framework.election.lease import own_namespace
from ktrain.framework.webhook import Registrations, SelfManagedCertificates, SharedCertificates, WebhookAddress
from ktrain.framework.webhook.injection import REGISTRATIONS_CHECK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.framework.operator.operator import Operator

    from .config import Configuration

MUTATING_WEBHOOKS: Final = "defaulter.trainer.kubeflow.org"
VALIDATING_WEBHOOKS: Final = "validator.trainer.kubeflow.org"
JOBSET_WEBHOOKS: Final = "ktrain-jobset"
"""Names of the configurations in config/trainer and config/jobset."""
_INJECTED: Final = ("get", "patch")

ADMISSION: Final = "admissionregistration.k8s.io"


def rights(secrets: Sequence[str]) -> tuple[Right, ...]:
    """Return the rights of managed certificates, which are kept in Secrets of these names."""
    kept = Rule(("",), ("secrets",), ("get", "update"), tuple(secrets), "the certificate of the webhooks")
    return (*_injections(VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS), Right("own", kept))


def rights_of_jobsets() -> tuple[Right, ...]:
    """Return what managed certificates need more where the JobSet controller has webhooks."""
    return _injections(JOBSET_WEBHOOKS, JOBSET_WEBHOOKS)


def _injections(validating: str, mutating: str) -> tuple[Right, ...]:
    why = "the CA of the webhooks"
    kinds = (("validatingwebhookconfigurations", validating), ("mutatingwebhookconfigurations", mutating))
    return tuple(Right("cluster", Rule((ADMISSION,), (kind,), _INJECTED, (name,), why)) for kind, name in kinds)


@dataclass(frozen=True, slots=True)
class Managed:
    """What is served, by whom it is signed, and how other servers than the webhooks' take part."""

    source: SelfManagedCertificates
    shared: SharedCertificates

    def authorities(self) -> str:
        """Return the CAs to trust, PEM."""
        return self.source.bundle.decode()


def manage_certificates(operator: Operator, configuration: Configuration) -> Managed:
    """
    Have an operator's webhooks served with certificates of its own making.

    A Secret that the file names is taken over from Kubeflow Trainer, with the CA in it still trusted.

    Raises:
        ValueError: The operator's namespace is not known.
    """
    management = configuration.cert_management
    namespace = _namespace(operator)
    jobsets = (JOBSET_WEBHOOKS,) if configuration.jobset.enable else ()
    source = SelfManagedCertificates(
        operator.main.unguarded,
        operator.env,
        secret=Key(namespace, management.webhook_secret_name or management.service),
        adopt=bool(management.webhook_secret_name),
        address=WebhookAddress.of_service(namespace, management.service),
        registrations=Registrations(validating=(VALIDATING_WEBHOOKS, *jobsets), mutating=(MUTATING_WEBHOOKS, *jobsets)),
        metrics=operator.metrics,
    )
    shared = SharedCertificates(source)
    operator.certificates(shared)
    operator.ready_check(REGISTRATIONS_CHECK, source.check)
    return Managed(source, shared)


def _namespace(operator: Operator) -> str:
    """Where the Service is: the pod's namespace, which need not be the Lease's."""
    try:
        return own_namespace("the Secret with its certificates")
    except ValueError:
        if operator.settings.namespace:
            return operator.settings.namespace
        raise
