"""The programs as a container starts them: environment in, JSON lines and an exit code out."""

import json
import os
import signal
import subprocess
import sys

import boto3
import pytest
import trustme
from botocore.exceptions import EndpointConnectionError

from ktrain.initializers.errors import ConfigurationError
from ktrain.initializers.settings import Settings
from ktrain.initializers.variables import unused

from ..waiting import eventually
from .servers import BadLine

PATIENCE_S = 60


@pytest.fixture
def start(tmp_path):
    """Start a program with this environment and no more; its target is `data` below the test's directory."""
    started = []

    def run(step, **environment):
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        own = {"TARGET_DIR": str(tmp_path / "data"), "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
        command = [sys.executable, "-m", f"ktrain.initializers.{step}"]
        process = subprocess.Popen(command, env={**kept, **own, **environment}, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    _, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, [json.loads(line) for line in errors.splitlines()]


@pytest.mark.parametrize("step", ["dataset", "model"])
def test_a_program_fetches_from_s3_and_tells_so(s3, moto, start, tmp_path, step):
    s3.put_object(Bucket="bucket", Key="set/a.csv", Body=b"1,2")
    s3.put_object(Bucket="bucket", Key="set/a.bin", Body=b"12")
    keys = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "", "ROLE_ARN": ""}
    code, lines = ended(start(step, STORAGE_URI="s3://bucket/set", ENDPOINT=moto, **keys))

    assert code == 0, lines
    assert sorted(path.name for path in (tmp_path / "data").glob("a.*")) == ["a.bin", "a.csv"][step == "model" :]
    assert [line["event"] for line in lines] == ["download.started", "download.finished"]
    assert (lines[1]["level"], lines[1]["proved"]) == ("info", 2 if step == "dataset" else 1)


@pytest.mark.parametrize("step", ["dataset", "model"])
def test_a_program_fetches_from_the_hub_that_the_environment_names(hub, start, tmp_path, step):
    hub.repositories[f"{step}/org/name"] = {"data/a.json": b"{}"}
    environment = {"STORAGE_URI": "hf://org/name", "HF_ENDPOINT": hub.url, "ACCESS_TOKEN": "hf_secret"}

    assert [ended(start(step, **environment))[0] for _ in range(2)] == [0, 0]
    assert (tmp_path / "data/data/a.json").read_bytes() == b"{}"
    assert hub.files_sent() == [("data/a.json", None)], "the second run fetches nothing"
    assert not list(tmp_path.rglob("*token*")), "the token is written nowhere"


@pytest.mark.parametrize(
    ("step", "environment", "code", "error"),
    [
        ("dataset", {}, 2, "STORAGE_URI environment variable must be set"),
        ("model", {"STORAGE_URI": ""}, 2, "STORAGE_URI environment variable must be set"),
        (
            "dataset",
            {"STORAGE_URI": "gs://a/b"},
            2,
            "Unsupported dataset storage URI scheme 'gs': expected one of 'hf' or 's3'",
        ),
        (
            "model",
            {"STORAGE_URI": "cache://a/b"},
            2,
            "Unsupported model storage URI scheme 'cache': expected one of 'hf' or 's3'",
        ),
        ("model", {"STORAGE_URI": "org/name"}, 2, "Unsupported model storage URI scheme ''"),
        ("dataset", {"STORAGE_URI": "cache://schema/table"}, 2, "ktrain has no data cache"),
        ("dataset", {"STORAGE_URI": "s3://b", "CONCURRENCY": "0"}, 2, "CONCURRENCY is '0': expected a number from 1"),
        ("dataset", {"STORAGE_URI": "s3://b", "ACCESS_KEY_ID": "a"}, 2, "must be set together"),
    ],
)
def test_what_cannot_be_ends_with_a_sentence_and_a_code(start, step, environment, code, error):
    returned, lines = ended(start(step, **environment))

    assert returned == code
    assert [(line["event"], line["exit_code"]) for line in lines] == [("download.failed", code)]
    assert error in lines[0]["error"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCESS_TOKEN", "hf_hidden\nX"),
        ("ACCESS_TOKEN", "hf_hidden\u00e9"),
        ("HF_TOKEN", "hf_hidden X"),
        ("SECRET_ACCESS_KEY", "hidden\tX"),
        ("ENDPOINT", "http://user:hidden@127.0.0.1:1"),
        ("ENDPOINT", "user:hidden@bad host"),
    ],
)
def test_a_credential_that_cannot_be_sent_is_named_and_not_shown(start, name, value):
    environment = {"STORAGE_URI": "s3://b", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "s", name: value}
    code, (line,) = ended(start("dataset", **environment))

    assert (code, line["event"]) == (2, "download.failed")
    assert line["error"].startswith(name)
    assert "hidden" not in str(line)


def test_a_line_break_at_the_end_of_a_token_does_not_count(hub, start):
    hub.repositories["dataset/org/name"] = {"a": b"x"}
    environment = {"STORAGE_URI": "hf://org/name", "HF_ENDPOINT": hub.url, "ACCESS_TOKEN": "hf_token\n"}

    code, lines = ended(start("dataset", **environment))
    assert code == 0, lines


@pytest.mark.parametrize(("answer", "code"), [((401, {}), 3), ((404, {}), 4)], ids=["refused", "not there"])
def test_exit_codes_tell_refusals_from_absence(hub, start, answer, code):
    hub.refusals["/api/datasets/"] = [answer]

    assert ended(start("dataset", STORAGE_URI="hf://org/name", HF_ENDPOINT=hub.url))[0] == code


def test_sigterm_ends_a_program_that_waits_for_its_source(hub, start):
    hub.refusals["/api/datasets/"] = [(503, {"Retry-After": "600"})] * 9
    process = start("dataset", STORAGE_URI="hf://org/name", HF_ENDPOINT=hub.url)

    assert "download.retry" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_a_program_that_was_killed_goes_on_in_the_middle_of_the_file(hub, start, tmp_path):
    body = os.urandom(8 << 20)
    hub.repositories["dataset/org/name"] = {"x": body}
    hub.refusals["/resolve/"] = [None, (503, {"Retry-After": "600"})]
    with BadLine(hub.url, after=5 << 20, times=1) as line:
        killed = start("dataset", STORAGE_URI="hf://org/name", HF_ENDPOINT=line.url)
        for awaited in ("download.started", "broke off", "503"):
            assert awaited in killed.stderr.readline()
        killed.kill()
        code, lines = ended(start("dataset", STORAGE_URI="hf://org/name", HF_ENDPOINT=line.url))

    assert code == 0, lines
    assert (tmp_path / "data/x").read_bytes() == body
    assert lines[0]["resumed_bytes"] >= 4 << 20
    assert lines[-1]["bytes"] == len(body) - lines[0]["resumed_bytes"]


@pytest.mark.parametrize(
    ("patterns", "ignored"),
    [(None, None), ("", None), (",", ()), (" *.a , *.b,", ("*.a", "*.b"))],
)
def test_patterns_are_trimmed_and_a_lone_comma_ignores_nothing(tmp_path, patterns, ignored):
    given = {} if patterns is None else {"IGNORE_PATTERNS": patterns}

    assert Settings.of({"STORAGE_URI": "s3://b", **given}, tmp_path).ignore == ignored


@pytest.mark.parametrize("text", ["0", "65", "-1", "eight", "8.0", "٣"])
def test_a_concurrency_out_of_bounds_is_refused(tmp_path, text):
    with pytest.raises(ConfigurationError, match="from 1 to 64"):
        Settings.of({"STORAGE_URI": "s3://b", "CONCURRENCY": text}, tmp_path)


def test_no_secret_is_shown_with_the_settings(tmp_path):
    secrets = {"ACCESS_TOKEN": "s1", "ACCESS_KEY_ID": "s2", "SECRET_ACCESS_KEY": "s3"}
    shown = repr(Settings.of({"STORAGE_URI": "hf://a/b", **secrets}, tmp_path))

    assert [secret for secret in secrets.values() if f"'{secret}'" in shown] == []


@pytest.mark.parametrize("name", ["ENDPOINT", "ENDPOINT_URL"])
@pytest.mark.parametrize(("value", "url"), [("s3.custom.com", "https://s3.custom.com"), ("http://a:1", "http://a:1")])
def test_either_name_gives_the_s3_server_and_a_host_alone_is_spoken_to_by_https(tmp_path, name, value, url):
    settings = Settings.of({"STORAGE_URI": "s3://datasets/yelp-review", name: value}, tmp_path)

    assert settings.endpoint == url


def test_two_s3_servers_are_refused(start):
    environment = {"ENDPOINT": "https://s3.one.com", "ENDPOINT_URL": "s3.two.com"}
    code, (line,) = ended(start("dataset", STORAGE_URI="s3://bucket/set", **environment))

    assert code == 2
    assert line["error"] == "ENDPOINT and ENDPOINT_URL are set and differ: set one of them"


@pytest.fixture
def tls_moto(tmp_path, unused_tcp_port_factory):
    """An S3 server with TLS and the bucket `datasets`: its host and port, and the file of its authority."""
    authority, port = trustme.CA(), unused_tcp_port_factory()
    ca, certificate, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca)
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    options = ["-H", "127.0.0.1", "-p", str(port), "--ssl-cert", str(certificate), "--ssl-key", str(key)]
    with (tmp_path / "moto.log").open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "moto.server", *options], stdout=out, stderr=out)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=f"https://localhost:{port}", verify=str(ca), **keys)
    try:
        eventually(
            lambda: client.create_bucket(Bucket="datasets"), despite=EndpointConnectionError, within_s=PATIENCE_S
        )
        client.put_object(Bucket="datasets", Key="yelp-review/train.csv", Body=b"5,good")
        yield f"localhost:{port}", ca
    finally:
        client.close()
        process.kill()
        process.wait()


def test_the_dataset_of_kep_2170_comes_from_its_endpoint_url_without_a_scheme(tls_moto, start, tmp_path):
    host, ca = tls_moto
    secret = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}
    environment = {"STORAGE_URI": "s3://datasets/yelp-review", "ENDPOINT_URL": host, "AWS_CA_BUNDLE": str(ca)}
    code, lines = ended(start("dataset", **environment, **secret))

    assert code == 0, lines
    assert [line["event"] for line in lines] == ["download.started", "download.finished"]
    assert (tmp_path / "data/train.csv").read_bytes() == b"5,good"


def test_the_model_of_kep_2170_comes_and_its_transformer_type_is_warned_of(hub, start, tmp_path):
    hub.repositories["model/bert-based-cased"] = {"config.json": b"{}", "model.safetensors": b"weights"}
    environment = {"STORAGE_URI": "hf://bert-based-cased", "TRANSFORMER_TYPE": "AutoModelForCausalLM"}
    code, lines = ended(start("model", HF_ENDPOINT=hub.url, **environment))

    assert code == 0, lines
    assert (tmp_path / "data/model.safetensors").read_bytes() == b"weights"
    assert [line["event"] for line in lines] == ["variable.unused", "download.started", "download.finished"]
    assert (lines[0]["level"], lines[0]["variable"]) == ("warning", "TRANSFORMER_TYPE")
    assert lines[0]["reason"].startswith("the initializer copies files and loads no model")


@pytest.mark.parametrize(
    ("scheme", "name", "reason"),
    [
        ("s3", "ENDPOINT_URI", "the initializer does not know it; is ENDPOINT_URL meant?"),
        ("s3", "STORAGE_URL", "the initializer does not know it; is STORAGE_URI meant?"),
        ("hf", "access_token", "the initializer does not know it; is ACCESS_TOKEN meant?"),
        ("hf", "IGNORE_PATTERN", "the initializer does not know it; is IGNORE_PATTERNS meant?"),
        ("s3", "ACCESS_TOKEN", "only hf:// URIs use it, and STORAGE_URI is s3://..."),
        ("hf", "REGION", "only s3:// URIs use it, and STORAGE_URI is hf://..."),
        (
            "hf",
            "ENDPOINT_URL",
            "only s3:// URIs use it, and STORAGE_URI is hf://...; HF_ENDPOINT names another Hub",
        ),
    ],
)
def test_a_variable_that_changes_nothing_is_named_with_the_reason(scheme, name, reason):
    assert unused({name: "x"}, scheme) == {name: reason}


def test_an_images_own_variables_and_empty_ones_are_not_spoken_of():
    images = dict.fromkeys(["PATH", "HOME", "HOSTNAME", "HF_ENDPOINT", "AWS_REGION", "KUBERNETES_PORT"], "x")

    assert unused({**images, "TRANSFORMER_TYPE": "", "ENDPOINT": ""}, "hf") == {}
