"""TLS believes whom kubectl and the API server would believe, whichever Python this is."""

import base64
import datetime
import ssl
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.oidc import OidcFields, OidcProvider
from ktrain.framework.webhook.certificates import KeyPair, ServingContext
from ktrain.local.apiserver.admission.callouts import _trust

NAME = "peer.example"
START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


class Party:
    """A certificate as older tools made them: no key identifiers, no key usage, constraints that are not critical."""

    def __init__(self, name, issuer=None):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        by = issuer or self
        self.certificate = (
            x509.CertificateBuilder(by.subject, self.subject, self.key.public_key(), x509.random_serial_number())
            .not_valid_before(START)
            .not_valid_after(START + datetime.timedelta(days=36500))
            .add_extension(x509.BasicConstraints(ca=name != NAME, path_length=None), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(by.key, hashes.SHA256())
        )

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def pair(self):
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return KeyPair(self.pem, self.key.private_bytes(serialization.Encoding.PEM, *form))

    def load_into(self, context, tmp_path):
        file = tmp_path / "pair.pem"
        file.write_bytes(self.pair.key + self.pair.certificate)
        context.load_cert_chain(file)


ROOT = Party("root.example")
INTERMEDIATE = Party("intermediate.example", ROOT)
AUTHORITIES = pytest.mark.parametrize("authority", [ROOT, INTERMEDIATE], ids=["older tools", "an intermediate alone"])


def shake_hands(client, server):
    """Connect the two in memory. Raises what the one says who does not believe the other."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=NAME)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    while waiting:
        for side in list(waiting):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                waiting.remove(side)


def oidc(pem):
    fields = OidcFields("https://peer.example", "client")
    return OidcProvider(fields, "user u", ca_file=None, ca_data=pem)._ssl_context()


CLIENTS = {
    "an API server": lambda pem: Endpoint("https://peer.example", ca_data=pem).ssl_context(),
    "an identity provider": oidc,
    "a webhook": lambda pem: _trust(base64.b64encode(pem.encode()).decode()),
}


@AUTHORITIES
@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_a_server_is_believed_by_what_its_authority_signed(make, authority, tmp_path):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Party(NAME, authority).load_into(server, tmp_path)

    shake_hands(make(authority.pem.decode()), server)


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_a_server_of_another_authority_is_not(make, tmp_path):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Party(NAME, Party("other.example")).load_into(server, tmp_path)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(make(ROOT.pem.decode()), server)


@AUTHORITIES
async def test_a_webhook_server_believes_the_clients_of_its_authority_and_no_others(authority, tmp_path):
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    serving = ServingContext(tmp_path / "ca.crt")
    await serving.use(Party(NAME).pair)

    def client_of(issuer):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        Party(NAME, issuer).load_into(client, tmp_path)
        return client

    shake_hands(client_of(authority), serving.context)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client_of(Party("other.example")), serving.context)
