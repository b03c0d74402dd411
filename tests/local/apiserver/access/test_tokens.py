"""Tokens of service accounts: what they say, how long they count, and what ends them."""

from __future__ import annotations

import base64
import json

import pytest

from ktrain.framework.env import system_env
from ktrain.local.apiserver.access.account_tokens import ISSUER, AccountTokens, Refused
from ktrain.local.apiserver.access.signing import Signer, new_signing_key
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.server import ApiServer
from ktrain.testing.time import simulate

TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
HOUR_S = 3600


async def ask(api, spec=None, account="default"):
    return await api.send("POST", TOKEN.replace("/default/token", f"/{account}/token"), {"spec": spec or {}})


async def token_of(api, spec=None):
    answer = await ask(api, spec)
    assert answer.status == 201, answer
    return answer.body["status"]["token"]


async def user_of(server, token):
    return await server.authenticate({"authorization": f"Bearer {token}"})


async def pod(api, name="p", **spec):
    return await api.create(
        "pods", {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    )


def parts(token):
    return [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]


def encoded(document):
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


async def test_a_token_says_whose_it_is_for_whom_and_how_long(server, api):
    answer = await ask(api, {"audiences": ["a", "b"], "expirationSeconds": 700})
    head, claims = parts(answer.body["status"]["token"])
    account = server.find("", "v1", "serviceaccounts", ("default", "default"))

    assert answer.body["spec"] == {"audiences": ["a", "b"], "expirationSeconds": 700, "boundObjectRef": None}
    assert head["alg"] == "ES256"
    assert (claims["iss"], claims["sub"]) == (ISSUER, "system:serviceaccount:default:default")
    assert (claims["aud"], claims["exp"] - claims["iat"], claims["nbf"]) == (["a", "b"], 700, claims["iat"])
    reference = {"name": "default", "uid": account["metadata"]["uid"]}
    assert claims["kubernetes.io"] == {"namespace": "default", "serviceaccount": reference}


async def test_it_is_a_user_in_the_groups_of_accounts(server, api):
    token = await token_of(api)
    user = await user_of(server, token)

    assert user.name == "system:serviceaccount:default:default"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert user.extra == (("authentication.kubernetes.io/credential-id", (f"JTI={parts(token)[1]['jti']}",)),)


SECONDS = "spec.expirationSeconds: Invalid value:"
CONFIG_MAP = {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"expirationSeconds": 599}, 422, f"{SECONDS} 599: may not specify a duration less than 10 minutes"),
        (
            {"expirationSeconds": 1 << 33},
            422,
            f"{SECONDS} {1 << 33}: may not specify a duration larger than 2^32 seconds",
        ),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404, 'pods "x" not found'),
        ({"boundObjectRef": {"kind": "Secret", "name": "x"}}, 404, 'secrets "x" not found'),
        ({"boundObjectRef": CONFIG_MAP}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        ({"expirationSeconds": "7"}, 400, 'TokenRequest in version "v1" cannot be handled as a TokenRequest: '),
    ],
)
async def test_what_may_be_asked_for(api, spec, code, message):
    answer = await ask(api, spec)

    assert answer.status == code
    assert message in answer.body["message"]


async def test_there_must_be_such_an_account(api):
    assert (await ask(api, account="nobody")).body["message"] == 'serviceaccounts "nobody" not found'


async def test_a_body_that_names_another_account_is_refused(api):
    answer = await api.send("POST", TOKEN, {"metadata": {"name": "other"}})

    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "metadata.name")


@pytest.mark.parametrize("kind", ["Pod", "Secret", "Node"])
async def test_a_bound_token_dies_with_what_it_is_bound_to(server, api, kind):
    if kind == "Pod":
        obj = await pod(api, "it")
    elif kind == "Secret":
        obj = await api.create("secrets", {"metadata": {"name": "it"}})
    else:
        obj = (await api.send("POST", "/api/v1/nodes", {"metadata": {"name": "it"}})).body
    reference = {"kind": kind, "apiVersion": "v1", "name": "it", "uid": obj["metadata"]["uid"]}
    token = await token_of(api, {"boundObjectRef": reference})
    assert (await user_of(server, token)).name == "system:serviceaccount:default:default"
    path = api.path(f"{kind.lower()}s", "it", cluster=kind == "Node")
    await api.send("DELETE", path)
    with pytest.raises(StatusError):
        await user_of(server, token)
    if kind == "Pod":  # another one of the same name is not the same
        await pod(api, "it")
        with pytest.raises(StatusError):
            await user_of(server, token)


async def test_a_token_of_a_pod_names_the_pod_and_its_node(server, api):
    await api.send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    uid = (await pod(api, "p", nodeName="n"))["metadata"]["uid"]
    user = await user_of(server, await token_of(api, {"boundObjectRef": {"kind": "Pod", "name": "p"}}))
    extra = dict(user.extra)

    assert extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert extra["authentication.kubernetes.io/pod-uid"] == (uid,)
    assert extra["authentication.kubernetes.io/node-name"] == ("n",)


async def test_a_token_is_bound_to_a_pod_of_its_own_account_and_uid_only(api):
    await api.create("serviceaccounts", {"metadata": {"name": "other"}})
    await pod(api)
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    foreign = await ask(api, {"boundObjectRef": reference}, account="other")
    wrong = await ask(api, {"boundObjectRef": {**reference, "uid": "x"}})

    text = 'cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.'
    assert (foreign.status, foreign.body["message"]) == (400, text)
    assert (wrong.status, wrong.body["reason"]) == (409, "Conflict")


async def test_an_account_that_was_made_again_is_another_one(server, api):
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    token = (await ask(api, account="robot")).body["status"]["token"]
    await api.send("DELETE", api.path("serviceaccounts", "robot"))
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})

    with pytest.raises(StatusError):
        await user_of(server, token)


def test_a_token_ends_a_minute_after_its_time():
    async def live(env):
        server = ApiServer(env)
        account = server.find("", "v1", "serviceaccounts", ("default", "default"))
        tokens = AccountTokens(server.store, env)
        token = tokens.issue(account, [], [ISSUER], HOUR_S).token
        await env.clock.sleep(HOUR_S + 58)
        tokens.holder(token)
        await env.clock.sleep(4)
        with pytest.raises(Refused, match="service account token has expired"):
            tokens.holder(token)

    simulate(live)


async def test_what_kubelets_ask_for_lasts_a_year_and_says_when_it_should_have_ended(server, api):
    await pod(api)
    spec = {"expirationSeconds": 3607, "boundObjectRef": {"kind": "Pod", "name": "p"}}
    answer = await ask(api, spec)
    _, claims = parts(answer.body["status"]["token"])

    assert claims["exp"] - claims["iat"] == 365 * 24 * HOUR_S
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == 3607
    _, claims = parts(await token_of(api, {**spec, "audiences": ["elsewhere"]}))
    assert claims["exp"] - claims["iat"] == 3607


async def test_a_token_for_others_is_none_for_this_server(server, api):
    with pytest.raises(StatusError):
        await user_of(server, await token_of(api, {"audiences": ["elsewhere"]}))


def forgeries(token):
    head, claims, signature = token.split(".")
    said = parts(token)[1]
    none = encoded({"alg": "none"})
    return {
        "no algorithm": f"{none}.{claims}.",
        "no algorithm, old signature": f"{none}.{claims}.{signature}",
        "the key as a secret": f"{encoded({'alg': 'HS256', 'kid': parts(token)[0]['kid']})}.{claims}.{signature}",
        "another subject": f"{head}.{encoded({**said, 'sub': 'system:serviceaccount:a:b'})}.{signature}",
        "another name": f"{head}.{encoded({**said, 'kubernetes.io': {'namespace': 'x'}})}.{signature}",
        "no signature": f"{head}.{claims}.",
        "half a signature": f"{head}.{claims}.{signature[:40]}",
        "a zero signature": f"{head}.{claims}.{'A' * 86}",
        "two parts": f"{head}.{claims}",
        "four parts": f"{token}.x",
        "padding": f"{token}=",
        "no base64": f"{head}.!!.{signature}",
        "no JSON": f"{head}.{'A' * 20}.{signature}",
        "no object": f"{encoded([1])}.{claims}.{signature}",
        "no text": f"{head}.{claims}.\udcff",
        "deep": f"{base64.urlsafe_b64encode(b'[' * 9000).decode()}.{claims}.{signature}",
        "long": f"{head}.{'A' * 100_000}.{signature}",
        "dots": "...",
    }


async def test_nothing_but_what_the_server_signed_counts(server, api):
    token = await token_of(api)
    accepted = []
    for what, forged in forgeries(token).items():
        try:
            accepted.append((what, (await user_of(server, forged)).name))
        except StatusError as refused:
            assert refused.code == 401  # noqa: PT017 - each of them is refused the same way
    assert accepted == []
    assert (await user_of(server, token)).name == "system:serviceaccount:default:default"


async def test_another_servers_token_is_not_accepted_unless_they_share_the_key(api, server, env):
    key = new_signing_key()
    first, second = (ApiServer(system_env(), signing_key=key) for _ in range(2))
    token = await token_of(type(api)(first.transport()))
    with pytest.raises(StatusError):
        await user_of(server, token)
    # The same key, but the account of the other store has another UID.
    with pytest.raises(Refused, match="service account UID"):
        AccountTokens(second.store, env, signing_key=key).holder(token)


def test_only_keys_on_the_right_curve_are_taken():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with pytest.raises(ValueError, match="P-256"):
        Signer(key.private_bytes(pem, pkcs8, plain)).sign({})


async def test_others_can_check_tokens_with_what_the_server_publishes(server, api):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    def number(text):
        return int.from_bytes(base64.urlsafe_b64decode(text + "=="), "big")

    document = (await api.send("GET", "/.well-known/openid-configuration")).body
    assert (document["issuer"], document["id_token_signing_alg_values_supported"]) == (ISSUER, ["ES256"])
    assert document["jwks_uri"].endswith("/openid/v1/jwks")
    token = await token_of(api)
    [key] = (await api.send("GET", "/openid/v1/jwks")).body["keys"]
    assert key["kid"] == parts(token)[0]["kid"]
    signed, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    halves = (int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
    public.verify(utils.encode_dss_signature(*halves), signed.encode(), ec.ECDSA(hashes.SHA256()))
