import base64

import msgspec
import pytest

from ktrain.framework.client.finding import find_endpoint, read_endpoint
from ktrain.framework.client.http import connect
from ktrain.framework.client.kubeconfig import Kubeconfig
from ktrain.framework.errors import ConfigError


def config(cluster=None, user=None, context=None, **more):
    """A kubeconfig with one context, `one`, of cluster `c` and user `u`."""
    return {
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        **more,
    }


@pytest.fixture
def write(tmp_path):
    """Write a kubeconfig; JSON is YAML."""

    def write(content, name="config"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else msgspec.json.encode(content))
        return str(path)

    return write


async def test_a_kubeconfig_names_server_user_and_namespace(write):
    path = write(config({"tls-server-name": "other"}, {"token": "abc"}, {"namespace": "team"}))

    endpoint = (await connect(path)).endpoint

    assert (endpoint.url, endpoint.namespace, endpoint.server_name) == ("http://127.0.0.1:1", "team", "other")
    assert await endpoint.credentials.headers() == {"Authorization": "Bearer abc"}


async def test_of_several_files_the_first_that_says_something_counts_and_paths_are_relative_to_their_file(
    write, tmp_path, monkeypatch
):
    first = write({"current-context": "one", "users": [{"name": "u", "user": {"tokenFile": "token"}}]}, "a/config")
    second = write(
        config({"certificate-authority": "ca.crt"}, {"token": "not this"}, **{"current-context": "two"}), "b/config"
    )
    (tmp_path / "a" / "token").write_text("from the file\n")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}::{second}")

    endpoint = await find_endpoint()

    assert await endpoint.credentials.headers() == {"Authorization": "Bearer from the file"}
    assert endpoint.ca_file == str(tmp_path / "b" / "ca.crt")


async def test_without_a_name_the_kubeconfig_of_the_home_directory_is_read(write, tmp_path, monkeypatch):
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    write(config(user={"token": "home"}), ".kube/config")

    assert await (await find_endpoint()).credentials.headers() == {"Authorization": "Bearer home"}


async def test_another_context_than_the_current_one_can_be_chosen(write):
    content = config(user={"token": "x"})
    content["contexts"].append({"name": "two", "context": {"cluster": "c", "namespace": "else"}})

    endpoint = await find_endpoint(write(content), "two")

    assert (endpoint.namespace, await endpoint.credentials.headers()) == ("else", {})


async def test_a_token_file_stands_above_a_token_and_the_token_serves_while_the_file_is_missing(write, tmp_path):
    path = write(config(user={"token": "inline", "tokenFile": "token"}))

    endpoint = await find_endpoint(path)
    without = await endpoint.credentials.headers()
    (tmp_path / "token").write_text("file")

    assert without == {"Authorization": "Bearer inline"}
    assert await endpoint.credentials.headers(refused=without) == {"Authorization": "Bearer file"}


async def test_a_token_in_the_kubeconfig_is_read_again_after_a_401_for_the_same_user_only(write):
    content = config(user={"token": "one"})
    path = write(content)
    credentials = (await find_endpoint(path)).credentials
    one = await credentials.headers()
    content["users"] = [{"name": "other", "user": {"token": "others"}}, {"name": "u", "user": {"token": "two"}}]
    content["contexts"][0]["context"]["user"] = "other"
    write(content)

    assert await credentials.headers(refused=one) == {"Authorization": "Bearer two"}
    assert "two" not in repr(credentials)


async def test_a_token_that_is_gone_from_the_kubeconfig_serves_on(write):
    path = write(config(user={"token": "one"}))
    credentials = (await find_endpoint(path)).credentials
    one = await credentials.headers()
    write(config(user={}))

    assert await credentials.headers(refused=one) is one


async def test_a_password_is_sent_as_such(write):
    endpoint = await find_endpoint(write(config(user={"username": "me", "password": "w"})))

    assert await endpoint.credentials.headers() == {"Authorization": "Basic bWU6dw=="}


def test_what_is_impersonated_goes_into_headers_that_may_repeat(write):
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"Example.org/Scopes": ["x", "y"]}}

    assert read_endpoint(write(config(user=user))).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.org%2Fscopes", "x"),
        ("Impersonate-Extra-example.org%2Fscopes", "y"),
    )


def test_the_fields_of_a_cluster_reach_the_endpoint(write):
    cluster = {
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://me:word@proxy:3128",
        "server": "https://api/path/",
    }

    endpoint = read_endpoint(write(config(cluster)))

    assert (endpoint.url, endpoint.verify, endpoint.proxy) == ("https://api/path", False, "http://me:word@proxy:3128")
    assert "word" not in repr(endpoint)


def test_certificates_in_the_kubeconfig_itself_never_become_files_or_text(write, tmp_path, issue):
    issue(tmp_path / "me", "me")
    certificate, key = ((tmp_path / "me" / name).read_bytes() for name in ("tls.crt", "tls.key"))
    user = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": _base64(certificate)}

    endpoint = read_endpoint(write(config(cluster, user)))

    assert endpoint.client_cert == (certificate, key)
    assert endpoint.ssl_context().cert_store_stats()["x509"] == 1
    assert endpoint.certificate_files == ()
    assert "PRIVATE" not in repr(endpoint)
    assert "CERTIFICATE" not in repr(endpoint)


def _base64(data):
    return base64.b64encode(data).decode()


PLUGIN = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}

BROKEN = {
    "": "names no cluster",
    "contexts: [": "at line 1",
    "[1]": "no mapping",
    "{}": "names no cluster",
    "clusters: {}\nusers: 3": "users is no list",
    "clusters: [{cluster: {}}]": r"clusters\[0\] has no name",
    "a: b: secret": "mapping values are not allowed here at line 1",
}
WRONG = {
    "no context": (config(**{"current-context": "three"}), "no context 'three'; there is one"),
    "no current context": (config(**{"current-context": ""}), "no current-context"),
    "no cluster": (config(context={"cluster": "d"}), "context 'one': its cluster 'd' is not there"),
    "no user": (config(context={"user": "d"}), "context 'one': its user 'd' is not there"),
    "no server": (config({"server": ""}), "cluster 'c': server is no http or https URL"),
    "type": (config(user={"token": {"secret": 1}}), "user 'u': Expected str | null, got object - at token"),
    "base64": (config(user={"client-key-data": "secret!", "client-certificate": "x"}), "user 'u': client-key-data"),
    "half": (config(user={"client-key": "x"}), "user 'u': client-key is given without client-certificate"),
    "half too": (config(user={"client-certificate": "x"}), "client-certificate is given without client-key"),
    "socks": (config({"proxy-url": "socks5://secret@x"}), "cluster 'c': proxy-url: proxies of scheme 'socks5'"),
    "groups": (config(user={"as-groups": ["a"]}), "user 'u': as-uid, as-groups and as-user-extra need as"),
    "line": (config(user={"as": "a\r\nb: c"}), "line break"),
    "two": (config(user={"exec": PLUGIN, "auth-provider": {"name": "oidc"}}), "exclude each other"),
    "version": (config(user={"exec": {**PLUGIN, "apiVersion": "v9"}}), "user 'u': exec.apiVersion is 'v9'"),
    "mode": (config(user={"exec": {**PLUGIN, "interactiveMode": "never"}}), "exec.interactiveMode is 'never'"),
    "command": (config(user={"exec": {**PLUGIN, "command": ""}}), "exec.command is empty"),
    "provider": (config(user={"auth-provider": {"name": "azure"}}), "user 'u': auth-provider 'azure' is not known"),
    "oidc": (config(user={"auth-provider": {"name": "oidc"}}), "missing required field `idp-issuer-url`"),
    "exec": (config(user={"exec": {"command": "x"}}), "missing required field apiVersion - at exec"),
}


@pytest.mark.parametrize(("text", "problem"), BROKEN.items())
async def test_a_kubeconfig_that_is_broken_is_named_with_what_is_wrong(write, text, problem):
    path = write(text)
    with pytest.raises(ConfigError, match=problem) as caught:
        await find_endpoint(path)

    assert path in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("content", "problem"), WRONG.values(), ids=WRONG)
async def test_a_wrong_entry_is_named_with_its_file_and_field_and_without_its_value(write, content, problem):
    path = write(content)
    with pytest.raises(ConfigError) as caught:
        await find_endpoint(path)

    assert problem in str(caught.value)
    assert path in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_kubeconfig_that_is_missing_is_named(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"missing cannot be used: it is not there"):
        await find_endpoint(str(tmp_path / "missing"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    with pytest.raises(ConfigError, match=r"/a:.*/b cannot be used: it is missing"):
        await find_endpoint()


def test_a_broken_entry_of_another_context_is_in_nobodys_way(write):
    content = config()
    content["users"].append({"name": "other", "user": "nonsense"})

    assert read_endpoint(write(content)).url == "http://127.0.0.1:1"


def test_an_entry_does_not_show_its_content(write):
    from pathlib import Path

    chosen = Kubeconfig([Path(write(config(user={"token": "secret"})))]).choose()

    assert "secret" not in repr(chosen)
