import base64
import ssl

import msgspec
import pytest
from aiohttp import web

from ktrain.framework.client.credentials import Endpoint
from ktrain.framework.client.finding import find_endpoint
from ktrain.framework.client.http import HttpTransport
from ktrain.framework.errors import ConfigError

FOREVER = 4102444800


def jwt(expires):
    claims = base64.urlsafe_b64encode(msgspec.json.encode({"exp": expires, "sub": "ü?>"})).decode().rstrip("=")
    return f"h.{claims}.s"


class Provider:
    """An identity provider whose refresh tokens are good for one use."""

    def __init__(self):
        self.asked = []
        self.refuses = False

    async def answer(self, request):
        if request.path.endswith("/.well-known/openid-configuration"):
            return web.json_response({"token_endpoint": f"{request.url.origin()}/token"})
        form = await request.post()
        if self.refuses or form["refresh_token"] != self.good:
            return web.json_response({"error": "invalid_grant", "error_description": "secret"}, status=400)
        self.asked.append((form["client_id"], form["client_secret"]))
        return web.json_response({"id_token": jwt(FOREVER + len(self.asked)), "refresh_token": self.good})

    @property
    def good(self):
        return f"refresh{len(self.asked)}"


@pytest.fixture
def endpoint_of(tmp_path):
    async def found(url, **config):
        fields = {"idp-issuer-url": url, "client-id": "c", "client-secret": "s", "refresh-token": "refresh0", **config}
        content = {
            "current-context": "one",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"auth-provider": {"name": "oidc", "config": fields}}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        }
        (tmp_path / "config").write_bytes(msgspec.json.encode(content))
        return await find_endpoint(str(tmp_path / "config"))

    return found


async def test_a_token_that_is_over_is_refreshed_and_one_that_is_refused_too(server, endpoint_of):
    provider = Provider()

    async with server(provider.answer) as url:
        credentials = (await endpoint_of(url, **{"id-token": jwt(1)})).credentials
        one = await credentials.headers()
        again = await credentials.headers()
        two = await credentials.headers(refused=one)

    assert (one, two) == (
        {"Authorization": f"Bearer {jwt(FOREVER + 1)}"},
        {"Authorization": f"Bearer {jwt(FOREVER + 2)}"},
    )
    assert again is one
    assert provider.asked == [("c", "s")] * 2


async def test_a_token_that_is_good_asks_nobody(endpoint_of):
    credentials = (await endpoint_of("http://127.0.0.1:1", **{"id-token": jwt(FOREVER)})).credentials

    assert await credentials.headers() == {"Authorization": f"Bearer {jwt(FOREVER)}"}


async def test_errors_say_whose_provider_and_no_secret(server, endpoint_of):
    provider = Provider()
    provider.refuses = True
    async with server(provider.answer) as url:
        with pytest.raises(
            ConfigError, match=r"of user 'u' in .*config: refused with 400 \(invalid_grant\) at http:.*token"
        ) as e:
            await endpoint_of(url)
        assert "secret" not in str(e.value)
        with pytest.raises(ConfigError, match="there is no refresh-token: log in again"):
            await endpoint_of(url, **{"refresh-token": "", "id-token": jwt(1)})
        with pytest.raises(ConfigError, match="the ID token is no JSON web token"):
            await endpoint_of(url, **{"id-token": "x"})
    with pytest.raises(ConfigError, match="cannot be reached"):
        await endpoint_of(url)


async def test_a_provider_whose_certificate_is_not_trusted_gets_no_secret(server, endpoint_of, tmp_path, issue):
    issue(tmp_path / "idp", "idp")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "idp" / "tls.crt", tmp_path / "idp" / "tls.key")
    provider = Provider()

    async with server(provider.answer, tls=tls) as url:
        with pytest.raises(ConfigError, match=r"cannot be reached: .*certificate"):
            await endpoint_of(url)
        assert provider.asked == []
        # The path is relative to the kubeconfig.
        await endpoint_of(url, **{"idp-certificate-authority": "idp/tls.crt"})
        data = base64.b64encode((tmp_path / "idp" / "tls.crt").read_bytes()).decode()
        await endpoint_of(url, **{"idp-certificate-authority-data": data, "refresh-token": "refresh1"})

    assert len(provider.asked) == 2


async def test_a_call_that_is_refused_is_sent_again_with_the_next_token(server, endpoint_of):
    provider = Provider()

    async def api(request):
        return web.Response(status=200 if request.headers["Authorization"].endswith(jwt(FOREVER + 1)) else 401)

    async with server(provider.answer) as idp, server(api) as url:
        credentials = (await endpoint_of(idp, **{"id-token": jwt(FOREVER)})).credentials
        http = HttpTransport(Endpoint(url, credentials))
        assert (await http.request("GET", "/")).status == 200
        await http.aclose()
