"""
Objects of an S3 bucket: `s3://bucket/prefix`.

boto3, since in a cluster credentials come from many places (a key, a role of the service account, the node, a role to
assume on top) and expire while a large dataset is on its way: botocore knows all of them and renews them. Its transfer
manager is not used: it starts a file anew after a crash. Objects are read by ranged requests with `If-Match`, so that
one that is replaced meanwhile is never half old and half new.

The prefix is a directory or one object, not the beginning of a name: `s3://bucket/data` is not `data2/`.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    FlexibleChecksumError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from .digest import Digest
from .errors import AccessRefused, ConfigurationError, Damaged, InitializerError, Interrupted, NothingThere
from .source import CHUNK, Item, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from botocore.client import BaseClient
    from botocore.response import StreamingBody

    from .settings import Settings

    Json = dict[str, Any]

_CHECKSUMS: Final[tuple[Literal["sha256", "sha1", "crc32"], ...]] = ("sha256", "sha1", "crc32")
_BUSY: Final = (408, 429)


class Bucket:
    """The objects below one prefix."""

    def __init__(self, uri: str, settings: Settings) -> None:
        """
        Name the objects; nothing is fetched yet.

        Args:
            uri: Without `s3://`.
            settings: Where the server is, and who we are there.

        Raises:
            ConfigurationError: The URI names no bucket, or the endpoint is no URL.
        """
        self._bucket, _, self._prefix = uri.partition("/")
        if not self._bucket:
            raise ConfigurationError(f"s3://{uri} names no bucket: expected s3://<bucket>/<prefix>")
        self._client = _client(settings)

    def items(self) -> Iterator[Item]:
        """List the objects below the prefix; if there are none, the prefix is the key of one."""
        found = False
        directory = self._prefix if not self._prefix or self._prefix.endswith("/") else f"{self._prefix}/"
        for item in self._below(directory):
            found = True
            yield item
        if not found and self._prefix and not self._prefix.endswith("/"):
            head = self._call(self._client.head_object, Key=self._prefix)
            yield Item(self._prefix, self._prefix.rpartition("/")[2], head["ContentLength"], head["ETag"])

    def _below(self, directory: str) -> Iterator[Item]:
        page: Json = {"IsTruncated": True}
        while page["IsTruncated"]:
            more = {"ContinuationToken": page["NextContinuationToken"]} if "NextContinuationToken" in page else {}
            page = self._call(self._client.list_objects_v2, Prefix=directory, **more)
            for entry in page.get("Contents", ()):
                if not entry["Key"].endswith("/"):  # else the mark of an empty directory
                    yield Item(entry["Key"], entry["Key"][len(directory) :], entry["Size"], entry["ETag"])

    @contextmanager
    def open(self, item: Item, offset: int) -> Iterator[Stream]:
        """Start to read the version of the object that was listed."""
        span = {"Range": f"bytes={offset}-"} if offset else {}
        answer = self._call(self._client.get_object, Key=item.key, IfMatch=item.version, ChecksumMode="ENABLED", **span)
        start = offset if answer["ResponseMetadata"]["HTTPStatusCode"] == 206 else 0
        with answer["Body"]:
            yield Stream(start, self._chunks(answer["Body"], item), self._digest(item, answer, whole=start == 0))

    def _chunks(self, body: StreamingBody, item: Item) -> Iterator[bytes]:
        try:
            yield from body.iter_chunks(CHUNK)
        except FlexibleChecksumError as error:
            raise Damaged(f"{item.key!r} is damaged: {error}") from error
        except (BotoCoreError, HTTPClientError) as error:
            raise Interrupted(f"{item.key!r} broke off: {error}") from error

    def _digest(self, item: Item, answer: Json, *, whole: bool) -> Digest | None:
        """Choose what proves the content; of a part of an object there is no checksum, but always the ETag."""
        for algorithm in _CHECKSUMS if whole and answer.get("ChecksumType") != "COMPOSITE" else ():
            value = answer.get(f"Checksum{algorithm.upper()}")
            if value and "-" not in value:
                return Digest.from_base64(algorithm, value)
        if answer.get("SSECustomerAlgorithm") or str(answer.get("ServerSideEncryption", "")).startswith("aws:kms"):
            return None  # the ETag is of what is stored
        md5, dash, parts = item.version.strip('"').partition("-")
        if len(md5) != 32 or not set(md5) <= set("0123456789abcdef"):
            return None
        return self._of_parts(item, int(parts)) if dash else Digest("md5", md5)

    def _of_parts(self, item: Item, parts: int) -> Digest | None:
        """Of an object that was sent in parts. Where they are not of one size, nothing can be said."""
        first, last = (self._call(self._client.head_object, Key=item.key, PartNumber=number) for number in (1, parts))
        size = first["ContentLength"]
        known = first.get("PartsCount") == parts and last["ContentLength"] == item.size - (parts - 1) * size
        return Digest("md5-of-parts", item.version.strip('"'), size) if known and size else None

    def _call(self, method: Callable[..., Json], **arguments: object) -> Json:
        what = f"s3://{self._bucket}/{arguments.get('Key', arguments.get('Prefix', ''))}"
        try:
            return method(Bucket=self._bucket, **arguments)
        except ClientError as error:
            raise _refusal(error, what) from error
        except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError) as error:
            raise AccessRefused(f"no usable credentials for {what}: {error}") from error
        except ParamValidationError as error:
            raise ConfigurationError(f"{what} cannot be: {error}") from error
        except (BotoCoreError, HTTPClientError) as error:
            raise Interrupted(f"no answer about {what}: {error}") from error


def _refusal(error: ClientError, what: str) -> InitializerError:
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    code, said = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    # An answer to HEAD has no body; its status is told as its code.
    told = f"{what}: {status} {said if code == str(status) else f'{code} {said}'}".rstrip()
    if status in (401, 403) or code in ("ExpiredToken", "InvalidToken"):
        return AccessRefused(f"access refused to {told}; see ACCESS_KEY_ID, SECRET_ACCESS_KEY, ROLE_ARN")
    if status == 404:
        return NothingThere(f"there is no {told}")
    if status == 412:
        return InitializerError(f"{what} was replaced while it was fetched; the next run fetches the new one")
    if status in _BUSY or status >= 500 or code == "RequestTimeout":
        return Interrupted(f"the server is busy with {told}")
    return InitializerError(f"the server does not send {told}")


def _client(settings: Settings) -> BaseClient:
    session = boto3.Session(settings.access_key_id, settings.secret_access_key)
    asked = settings.region if settings.region != "auto" else None
    amazons = asked or session.region_name or "us-east-1"  # which leads us on to the bucket's own
    if settings.role_arn:
        _assume(session, settings.role_arn, amazons)
    config = Config(
        region_name=(asked or "auto") if settings.endpoint else amazons,
        signature_version=None if session.get_credentials() else UNSIGNED,
        connect_timeout=10,
        read_timeout=60,
        retries={"total_max_attempts": 1},  # trying again is `retry`'s
        max_pool_connections=settings.concurrency,
        s3={"addressing_style": "path"} if settings.endpoint else {},
        response_checksum_validation="when_required",
    )
    try:
        return session.client("s3", endpoint_url=settings.endpoint, config=config)
    except ValueError as error:
        raise ConfigurationError(f"ENDPOINT {settings.endpoint!r} cannot be: {error}") from error


def _assume(session: boto3.Session, role_arn: str, region: str) -> None:
    """Let *session* act as a role, with credentials that are renewed before they expire."""
    own = session.get_credentials()
    if own is None:
        raise AccessRefused(f"there are no credentials to assume {role_arn} with")
    core = session._session  # noqa: SLF001 -- boto3 has no other way to give a session such credentials
    fetcher = AssumeRoleCredentialFetcher(
        partial(core.create_client, region_name=region),
        own,
        role_arn,
        extra_args={"RoleSessionName": "ktrain-initializer"},
    )
    core._credentials = DeferredRefreshableCredentials(  # noqa: SLF001 -- as above
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )
