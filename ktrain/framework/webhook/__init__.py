"""
Webhooks: what the API server asks before it stores an object, or to read it in another version.

    server          HTTPS, one path per webhook; a service of the manager, in every replica
    admission       requests, verdicts, and how one becomes the other
    conversion      kinds between versions, by hub and spokes
    certificates    pairs from a directory, exchanged while serving
    selfmanaged     pairs of our own making in a Secret; `rotation`, `authority` and `injection` are its parts

    certificates = SelfManagedCertificates(
        client, env, secret=Key("operators", "website-webhook"),
        address=WebhookAddress.of_service("operators", "website-webhook"),
        registrations=Registrations(validating=("website",), definitions=("websites.example.com",)),
    )
    server = WebhookServer({"/validate-website": check}, certificates, env, metrics=metrics)
    server.conversion(websites)
    Manager(..., services=[HealthServer(..., ready={"webhook": server.check}), server])
"""

from .admission import AdmissionHandler as AdmissionHandler
from .admission import AdmissionRequest as AdmissionRequest
from .admission import Allowed as Allowed
from .admission import Denied as Denied
from .admission import GroupVersionKind as GroupVersionKind
from .admission import GroupVersionResource as GroupVersionResource
from .admission import Handlers as Handlers
from .admission import Refused as Refused
from .admission import UserInfo as UserInfo
from .admission import Verdict as Verdict
from .admission import defaulter as defaulter
from .admission import respond as respond
from .certificates import CertificateDirectory as CertificateDirectory
from .certificates import CertificateSource as CertificateSource
from .certificates import KeyPair as KeyPair
from .certificates import ServingContext as ServingContext
from .certificates import SharedCertificates as SharedCertificates
from .conversion import CannotConvert as CannotConvert
from .conversion import Conversion as Conversion
from .conversion import keep as keep
from .conversion import recall as recall
from .conversion import respond_conversion as respond_conversion
from .injection import Registrations as Registrations
from .injection import WebhookAddress as WebhookAddress
from .selfmanaged import SelfManagedCertificates as SelfManagedCertificates
from .server import MAX_BODY_BYTES as MAX_BODY_BYTES
from .server import WebhookServer as WebhookServer
