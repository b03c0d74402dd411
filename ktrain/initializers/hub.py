"""
Repositories of the Hugging Face Hub: `hf://org/name`, and `hf://org/name@revision`.

huggingface_hub finds the repository, lists it, and brings the session with the token, proxies and certificates. The
bytes are read here, by ranged requests: its own download starts a file anew after a crash and compares no checksum, and
an initializer that is evicted at 90 % of a model should not fetch all of it again.

All files are of one commit, whatever is pushed meanwhile.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote

from huggingface_hub import HfApi, RepoFile, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import build_hf_headers, get_session

from .digest import Digest
from .errors import AccessRefused, ConfigurationError, InitializerError, Interrupted, NothingThere
from .source import CHUNK, Item, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TIMEOUT_S: Final = 60
_BUSY: Final = (408, 429)


class _Response(Protocol):
    """An answer that is being read, by whichever library huggingface_hub has its sessions from."""

    status_code: int
    reason_phrase: str

    @property
    def headers(self) -> Mapping[str, str]: ...

    def iter_bytes(self, chunk_size: int) -> Iterator[bytes]: ...


class HubRepository:
    """A dataset or a model on the Hub."""

    def __init__(self, uri: str, kind: str, *, token: str | None = None, endpoint: str | None = None) -> None:
        """
        Name the repository; nothing is fetched yet.

        Args:
            uri: Without `hf://`. Of a dataset what follows the name is ignored, as in Kubeflow's image: the SDK puts
                there what the trainer is to read.
            kind: `dataset` or `model`.
            token: Without one, the environment's `HF_TOKEN`.
            endpoint: Without one, the environment's `HF_ENDPOINT`.

        Raises:
            ConfigurationError: The URI names nothing.
        """
        parts = uri.strip("/").split("/")
        self.repository, _, revision = "/".join(parts[:2] if kind == "dataset" else parts).partition("@")
        self._kind = kind
        self._revision = unquote(revision) or None
        self._token = token
        self._endpoint = endpoint
        self._commit = ""
        self._digests: dict[str, Digest] = {}
        if not self.repository:
            raise ConfigurationError(f"hf://{uri} names no {kind}: expected hf://<organization>/<name>")

    def items(self) -> Iterator[Item]:
        """List the files of the commit that the revision is now."""
        api = HfApi(self._endpoint, self._token)
        try:
            info = api.repo_info(self.repository, repo_type=self._kind, revision=self._revision, timeout=_TIMEOUT_S)
            self._commit = info.sha
            tree = api.list_repo_tree(self.repository, repo_type=self._kind, revision=info.sha, recursive=True)
            for entry in tree:
                if isinstance(entry, RepoFile):
                    yield self._item(entry)
        except HFValidationError as error:
            raise ConfigurationError(f"hf://{self.repository} is no name of a {self._kind}: {error}") from error
        except OfflineModeIsEnabled as error:
            raise ConfigurationError(
                f"{self._named()} cannot be fetched: HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) forbids asking the Hub; "
                "unset it for this step"
            ) from error
        except HfHubHTTPError as error:
            raise self._refusal(error.response, self._named()) from error
        except HTTPError as error:
            raise Interrupted(f"the Hub did not answer about {self._named()}: {error}") from error

    def _item(self, file: RepoFile) -> Item:
        digest = Digest("sha256", file.lfs.sha256) if file.lfs else Digest("git-blob", file.blob_id)
        self._digests[file.path] = digest
        return Item(file.path, file.path, file.size, digest.value)

    @contextmanager
    def open(self, item: Item, offset: int) -> Iterator[Stream]:
        """Start to read. Content that is packed on the way is sent from its start only."""
        url = hf_hub_url(
            self.repository, item.key, repo_type=self._kind, revision=self._commit, endpoint=self._endpoint
        )
        headers = build_hf_headers(token=self._token) | {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        # The redirect leads to storage elsewhere; the session leaves the token out of what goes there.
        stream = get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=_TIMEOUT_S)
        try:
            response = stream.__enter__()
        except HTTPError as error:
            raise Interrupted(f"the Hub did not send {item.key!r}: {error}") from error
        try:
            if response.status_code >= 400:
                raise self._refusal(response, repr(item.key))
            start = offset if response.status_code == 206 else 0
            yield Stream(start, _chunks(response, item), self._digests[item.key])
        finally:
            stream.__exit__(None, None, None)

    def _named(self) -> str:
        return f"the {self._kind} {self.repository}" + (f" at {self._revision}" if self._revision else "")

    def _refusal(self, response: _Response, what: str) -> InitializerError:
        status = response.status_code
        said = response.headers.get("X-Error-Message") or response.reason_phrase
        if status in (401, 403):
            # To those it does not know, the Hub says 401 also for what does not exist.
            hint = (
                "this token may not read it" if self._token else "it is private, gated or not there; set ACCESS_TOKEN"
            )
            return AccessRefused(f"the Hub refuses {what} ({status} {said}): {hint}")
        if status == 404:
            return NothingThere(f"the Hub has not {what} ({said})")
        if status in _BUSY or status >= 500:
            asked = response.headers.get("Retry-After", "")
            wait_s = float(asked) if asked.isascii() and asked.isdigit() else 0
            return Interrupted(f"the Hub cannot send {what} now ({status} {said})", retry_after_s=wait_s)
        return InitializerError(f"the Hub does not send {what}: {status} {said}")


def _chunks(response: _Response, item: Item) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes(CHUNK)
    except HTTPError as error:
        raise Interrupted(f"{item.key!r} broke off: {error}") from error
