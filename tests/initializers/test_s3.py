"""Objects of S3, from moto's server over a real socket."""

import dataclasses
import re
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from ktrain.initializers.digest import Digest
from ktrain.initializers.download import Download
from ktrain.initializers.errors import AccessRefused, ConfigurationError, Damaged, Interrupted, NothingThere
from ktrain.initializers.s3 import Bucket
from ktrain.initializers.settings import Settings

from .conftest import QUICK
from .servers import BadLine

MIB = 1 << 20


@pytest.fixture
def fetch(moto, tmp_path):
    """Download a URI below the test's directory; returns what is there, by name."""

    def run(uri="bucket/data", *, endpoint=moto, ignore=(), **settings):
        told = Settings(f"s3://{uri}", tmp_path / "data", endpoint=endpoint, **settings)
        Download(Bucket(uri, told), told.target, ignore=ignore, retry=QUICK, concurrency=told.concurrency).run()
        return there(told.target)

    return run


def there(target: Path):
    files = (path for path in target.rglob("*") if path.is_file())
    found = {path.relative_to(target).as_posix(): path.read_bytes() for path in files}
    return {name: body for name, body in found.items() if not name.startswith(".ktrain/")}


def put(s3, *keys, bucket="bucket", **more):
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), **more)


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("bucket/data", ["a.csv", "deep/b.csv"]),
        ("bucket/data/", ["a.csv", "deep/b.csv"]),
        ("bucket/data/deep", ["b.csv"]),
        ("bucket/data/a.csv", ["a.csv"]),
        ("bucket/data2", ["c.csv"]),
        ("bucket", ["data/a.csv", "data/deep/b.csv", "data2/c.csv"]),
    ],
)
def test_a_prefix_is_a_directory_or_one_object(s3, fetch, uri, found):
    put(s3, "data/", "data/a.csv", "data/deep/", "data/deep/b.csv", "data2/c.csv")

    assert sorted(fetch(uri)) == found


def test_patterns_are_matched_against_whole_keys(s3, fetch):
    put(s3, "data/a.csv", "data/b.bin", "data/test/c.csv")

    assert list(fetch(ignore=("*.bin", "data/test/*"))) == ["a.csv"]
    with pytest.raises(NothingThere, match="all 3 files are ignored"):
        fetch(ignore=("data/*",))


def test_more_objects_than_a_page_has_all_come(s3, fetch):
    keys = [f"data/{number}" for number in range(8)]
    put(s3, *keys)
    assert s3.list_objects_v2(Bucket="bucket")["IsTruncated"]

    assert sorted(fetch()) == [key.removeprefix("data/") for key in keys]


@pytest.mark.parametrize("body", [b"", b"x", bytes(3 * MIB)])
def test_empty_and_large_objects_come_whole(s3, fetch, body):
    s3.put_object(Bucket="bucket", Key="data/x", Body=body)

    assert fetch() == {"x": body}


def test_a_broken_off_object_is_continued_where_it_broke(s3, moto, fetch, lines):
    body = bytes(range(256)) * 4096 * 12
    s3.put_object(Bucket="bucket", Key="data/x", Body=body)

    with BadLine(moto, after=5 * MIB, times=2) as line:
        assert fetch(endpoint=line.url) == {"x": body}

    assert len(body) <= line.bytes < len(body) + MIB, "no byte comes twice but those of answers' heads"
    assert [event["what"] for event in lines if event["event"] == "download.retry"] == ["data/x"] * 2


def test_a_line_that_never_brings_a_byte_is_given_up(s3, moto, fetch, lines):
    put(s3, "data/x")

    with (
        BadLine(moto, after=0, times=100) as line,
        pytest.raises(Interrupted, match="no answer about s3://bucket/data/"),
    ):
        fetch(endpoint=line.url)

    assert len([event for event in lines if event["event"] == "download.retry"]) == QUICK.attempts - 1


@pytest.mark.parametrize("algorithm", ["SHA256", "SHA1", "CRC32"])
def test_a_checksum_of_the_writer_is_what_proves_the_content(s3, moto, tmp_path, algorithm):
    body = b"content"
    s3.put_object(Bucket="bucket", Key="x", Body=body, ChecksumAlgorithm=algorithm)
    source = Bucket("bucket/x", Settings("", Path(), endpoint=moto))
    (item,) = source.items()

    (tmp_path / "x").write_bytes(body)
    with source.open(item, 0) as stream:
        assert stream.digest.algorithm == algorithm.lower()
        assert stream.digest.of(tmp_path / "x") == stream.digest.value
    with source.open(item, 3) as stream:
        assert (stream.digest.algorithm, stream.offset, b"".join(stream.chunks)) == ("md5", 3, b"tent")


def test_an_object_in_parts_is_proved_by_the_md5s_of_its_parts(s3, moto, fetch, lines):
    body = bytes(5 * MIB) + b"rest"
    upload = s3.create_multipart_upload(Bucket="bucket", Key="data/x")["UploadId"]
    parts = [
        s3.upload_part(Bucket="bucket", Key="data/x", UploadId=upload, PartNumber=number, Body=part)
        for number, part in ((1, body[: 5 * MIB]), (2, body[5 * MIB :]))
    ]
    told = {"Parts": [{"PartNumber": number, "ETag": part["ETag"]} for number, part in enumerate(parts, 1)]}
    s3.complete_multipart_upload(Bucket="bucket", Key="data/x", UploadId=upload, MultipartUpload=told)

    assert fetch() == {"x": body}
    assert lines[-1]["proved"] == 1


@pytest.mark.parametrize(
    ("answer", "etag", "algorithm"),
    [
        ({}, '"0123456789abcdef0123456789abcdef"', "md5"),
        ({"ServerSideEncryption": "AES256"}, '"0123456789abcdef0123456789abcdef"', "md5"),
        ({"ServerSideEncryption": "aws:kms"}, '"0123456789abcdef0123456789abcdef"', None),
        ({"ServerSideEncryption": "aws:kms:dsse"}, '"0123456789abcdef0123456789abcdef"', None),
        ({"SSECustomerAlgorithm": "AES256"}, '"0123456789abcdef0123456789abcdef"', None),
        ({}, '"of-some-other-server"', None),
        ({"ChecksumCRC32": "yZRlqg==", "ChecksumType": "COMPOSITE"}, '"0123456789abcdef0123456789abcdef"', "md5"),
        ({"ChecksumSHA256": "yZRlqg==-3"}, '"0123456789abcdef0123456789abcdef"', "md5"),
    ],
)
def test_an_etag_proves_only_what_it_is_the_md5_of(moto, s3, answer, etag, algorithm):
    source = Bucket("bucket", Settings("", Path(), endpoint=moto))
    digest = source._digest(SimpleNamespace(version=etag), answer, whole=True)

    assert (digest and digest.algorithm) == algorithm


def test_what_differs_from_its_checksum_is_fetched_anew_and_then_refused(s3, fetch, tmp_path, monkeypatch):
    put(s3, "data/x")
    monkeypatch.setattr(Bucket, "_digest", lambda *_, **__: Digest("md5", "0" * 32))

    with pytest.raises(Damaged, match=r"'data/x' is damaged: its md5 is [0-9a-f]{32}, the source announced 0{32}"):
        fetch()
    assert there(tmp_path / "data") == {}


@pytest.mark.parametrize(
    ("uri", "error", "text"),
    [
        ("nowhere/data", NothingThere, "there is no s3://nowhere/data/: 404 NoSuchBucket"),
        ("bucket/data", NothingThere, "there is no s3://bucket/data: 404 Not Found"),
        ("bucket", NothingThere, "there are no files; nothing to fetch"),
        ("no bucket/data", ConfigurationError, "s3://no bucket/data/ cannot be"),
        ("", ConfigurationError, "names no bucket"),
    ],
)
def test_what_is_not_there_is_told_by_name(s3, fetch, uri, error, text):
    with pytest.raises(error, match=text):
        fetch(uri)


def test_an_endpoint_that_is_no_url_is_told(s3, fetch):
    with pytest.raises(ConfigurationError, match="ENDPOINT 'minio:9000' cannot be"):
        fetch(endpoint="minio:9000")


def test_a_key_that_the_server_does_not_know_is_told_as_such(s3, moto, fetch):
    put(s3, "data/x")
    enforce_credentials(moto, after=0)
    try:
        with pytest.raises(AccessRefused, match="access refused to s3://bucket/data/: 403 InvalidAccessKeyId"):
            fetch(access_key_id="someone", secret_access_key="else")
    finally:
        enforce_credentials(moto, after=10**9)


def enforce_credentials(moto, *, after):
    call = urllib.request.Request(f"{moto}/moto-api/reset-auth", str(after).encode(), {"Content-Type": "text/plain"})
    urllib.request.urlopen(call).close()


def signed_by(source):
    """The key that signs what is sent, as links show it; nothing if nobody signs."""
    link = source._client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "x"})
    return re.search("(?:X-Amz-Credential|AWSAccessKeyId)=([^%&]+)|$", link)[1]


def test_a_role_is_assumed_with_the_credentials_that_are_there(s3, moto, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto)
    settings = Settings("", Path(), endpoint=moto, access_key_id="own", secret_access_key="secret")
    role = "arn:aws:iam::123456789012:role/reader"

    assert signed_by(Bucket("bucket", settings)) == "own"
    assert signed_by(Bucket("bucket", dataclasses.replace(settings, role_arn=role))).startswith("ASIA")


def test_without_credentials_requests_are_anonymous_and_no_role_can_be_assumed(s3, moto, monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    assert signed_by(Bucket("bucket", Settings("", Path(), endpoint=moto))) is None
    with pytest.raises(AccessRefused, match="no credentials to assume arn:a with"):
        Bucket("bucket", Settings("", Path(), endpoint=moto, role_arn="arn:a"))
