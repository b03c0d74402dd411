"""
How an answer looks: JSON, YAML, a table, or metadata only, as the Accept header asks.

Wholes and lists of stored objects are put together from JSON that was made once; only the other forms cost work for
each request.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.errors import StatusError, not_acceptable
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.reading.watching import INITIAL_EVENTS_END
from ktrain.local.apiserver.requests import JSON_TYPE, Answer, Parameters
from ktrain.local.apiserver.storage.store import decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.reading.listing import Page
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.requests import Request
    from ktrain.local.apiserver.storage.store import Item

YAML_TYPE: Final = "application/yaml"
META_VERSION: Final = "meta.k8s.io/v1"
_ACCEPTED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMS: Final = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
_ALL_STREAMS: Final = f"{_ACCEPTED}, {_STREAMS}"
_FORMS: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_MEDIA: Final = frozenset({*_ACCEPTED.split(", "), "*/*"})
_META_VERSIONS: Final = frozenset({"v1", "v1beta1"})
_PEOPLE: Final = ("curl/", "Wget/", "Mozilla/")


@dataclass(frozen=True, slots=True)
class Format:
    """What was negotiated: `form` is a Table or PartialObjectMetadata(List), empty for the object itself."""

    yaml: bool = False
    form: str = ""
    version: str = "v1"
    pretty: bool = False

    @property
    def content_type(self) -> str:
        """The answer's Content-Type."""
        return YAML_TYPE if self.yaml else JSON_TYPE

    @property
    def group_version(self) -> str:
        """The apiVersion of a form."""
        return f"meta.k8s.io/{self.version}"

    def encode(self, document: Json) -> bytes:
        """Encode a document that is not kept in encoded form."""
        if self.yaml:
            return _to_yaml(document)
        if self.pretty:
            return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
        return encode(document) + b"\n"


def negotiate(accept: str, *, pretty: bool = False, watch: bool = False, forms: bool = True) -> Format:
    """
    Choose among what the client accepts: by quality, then by order.

    Raises:
        StatusError: 406.
    """
    for media, parameters in _parse_accept(accept):
        if not _is_known(parameters, forms=forms):
            continue
        form, version = parameters.get("as", ""), parameters.get("v", "v1")
        if media in {JSON_TYPE, "*/*", "application/*"}:
            return Format(form=form, version=version, pretty=pretty)
        if media == YAML_TYPE and watch:
            raise not_acceptable(f"only the following media types are accepted: {_STREAMS}")
        if media == YAML_TYPE:
            return Format(yaml=True, form=form, version=version)
    raise not_acceptable(f"only the following media types are accepted: {_ACCEPTED}")


def _is_known(parameters: Mapping[str, str], *, forms: bool) -> bool:
    """Whether a form is asked for that there is; without one, nothing of a form may be said."""
    if "as" not in parameters:
        return not parameters.keys() & {"g", "v"}
    return (
        forms
        and parameters["as"] in _FORMS
        and parameters.get("g") == "meta.k8s.io"
        and parameters.get("v") in _META_VERSIONS
    )


def format_of(call: Call, *, watch: bool = False) -> Format:
    """
    Choose what a request's answer looks like.

    Raises:
        StatusError: 406.
    """
    accept = call.header("accept")
    if not call.resource.custom and not any(media in _MEDIA for media, _ in _parse_accept(accept)):
        # For built-in kinds somebody else refuses first, with words of its own.
        listed = _ALL_STREAMS if call.request.method == "GET" and not call.name else _ACCEPTED
        raise StatusError(
            406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {listed}", details={}
        )
    return negotiate(accept, pretty=pretty_wanted(call.request), watch=watch)


def pretty_wanted(request: Request) -> bool:
    """Whether JSON is to be indented: as `pretty` says, else for people, who use curl, wget or a browser."""
    parameters = Parameters(request.query)
    if "pretty" in parameters:
        return parameters.flag("pretty")
    return request.headers.get("user-agent", "").startswith(_PEOPLE)


def plain_answer(call: Call, document: Json, *, status: int = 200) -> Answer:
    """
    Answer with a document that is no stored object (a Status, a Scale, a review): there are no tables of those.

    Raises:
        StatusError: 406.
    """
    fmt = format_of(call)
    return answer(status, Format(yaml=fmt.yaml, pretty=fmt.pretty).encode(document), fmt)


def answer(status: int, body: bytes, fmt: Format) -> Answer:
    """Put a rendered body into an answer."""
    return Answer(status, body, (("content-type", fmt.content_type),)) if fmt.yaml else Answer(status, body)


def render_object(backend: Backend, call: Call, item: Item, fmt: Format) -> bytes:
    """
    Render one object.

    Raises:
        StatusError: The form is one of lists.
    """
    if not fmt.form and not fmt.yaml and not fmt.pretty:
        return views.whole(call.resource, item) + b"\n"
    if fmt.form == "Table":
        meta = {"resourceVersion": str(item.revision)}
        return fmt.encode(_table(backend, call, [item], meta, fmt))
    if fmt.form == "PartialObjectMetadataList":
        if call.resource.custom:
            raise StatusError(500, "", "content is not a list")
        name = f"*{_package(call.resource)}.{call.resource.kind}"
        raise not_acceptable(
            f"you requested PartialObjectMetadataList, but the requested object is not a list ({name})"
        )
    obj = views.present(call.resource, item)
    return fmt.encode(_partial(obj) | {"apiVersion": fmt.group_version} if fmt.form else _typed(obj))


def render_page(backend: Backend, call: Call, page: Page, fmt: Format) -> bytes:
    """
    Render a list.

    Raises:
        StatusError: The form is one of single objects.
    """
    meta: Json = {"resourceVersion": str(page.revision)}
    # Where lists have no type of their own, their metadata is written out.
    if page.continue_token or (call.resource.custom and not fmt.form):
        meta["continue"] = page.continue_token
    if page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    if fmt.form == "Table":
        return fmt.encode(_table(backend, call, page.items, meta, fmt))
    if fmt.form == "PartialObjectMetadata":
        listed = "Unstructured" if call.resource.custom else call.resource.kind
        name = f"*{_package(call.resource)}.{listed}List"
        raise not_acceptable(f"you requested PartialObjectMetadata, but the requested object is a list ({name})")
    if fmt.form:
        items = [_partial(item.obj) for item in page.items] or None
        return fmt.encode({"kind": fmt.form, "apiVersion": fmt.group_version, "metadata": meta, "items": items})
    raw = _list_json(call, page, encode(meta))
    return raw if not fmt.yaml and not fmt.pretty else fmt.encode(decode(raw))


class EventRenderer:
    """Renders the objects of one watch. Tables name their columns only once."""

    def __init__(self, backend: Backend, call: Call, fmt: Format) -> None:
        self._backend = backend
        self._call = call
        self._fmt = fmt
        self._columns_sent = False

    def object(self, item: Item) -> bytes:
        """Render the object of an event."""
        if not self._fmt.form:
            return views.whole(self._call.resource, item)
        if self._fmt.form != "Table":
            return encode(_partial(item.obj))
        meta = {"resourceVersion": item.obj["metadata"]["resourceVersion"]}
        return self._finish(_table(self._backend, self._call, [item], meta, self._fmt))

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        """Render the object of a bookmark: type and version, and the mark that ends the initial events."""
        meta: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self._call.resource
        if self._fmt.form and self._fmt.form != "Table":
            return encode({"kind": "PartialObjectMetadata", "apiVersion": META_VERSION, "metadata": meta})
        obj: Json = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if not self._fmt.form:
            return encode(obj)
        from ktrain.local.apiserver.forms import table

        return self._finish(table.bookmark(resource, obj))

    def _finish(self, document: Json) -> bytes:
        if self._columns_sent:
            document["columnDefinitions"] = None
        self._columns_sent = True
        return encode(document)


def _list_json(call: Call, page: Page, meta: bytes) -> bytes:
    resource = call.resource
    kind, version = resource.names_of_list
    render = views.whole if resource.custom else views.body
    items = b",".join([render(resource, item) for item in page.items])
    head = f'{{"kind":"{kind}","apiVersion":"{version}","metadata":'.encode()
    return b"".join((head, meta, b',"items":[', items, b"]}\n"))


def _table(backend: Backend, call: Call, items: list[Item], meta: Json, fmt: Format) -> Json:
    include = call.parameters.text("includeObject") or "Metadata"
    if include not in {"Metadata", "Object", "None"}:
        raise StatusError(
            400,
            "BadRequest",
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty",
        )
    from ktrain.local.apiserver.forms import table

    objects = [_typed(views.present(call.resource, item)) for item in items]
    rendered = table.render(objects, call.resource, now=backend.now(), include=include, meta=meta)
    return rendered | {"apiVersion": fmt.group_version}


def _typed(obj: Json) -> Json:
    rest = {name: value for name, value in obj.items() if name not in {"kind", "apiVersion"}}
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **rest}


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": META_VERSION, "metadata": obj["metadata"]}


def _package(resource: ServedResource) -> str:
    """Return the Go package that a kind is in, as messages name it."""
    return "unstructured" if resource.custom else resource.group.partition(".")[0] or "core"


def _parse_accept(accept: str) -> list[tuple[str, dict[str, str]]]:
    if not accept:
        return [(JSON_TYPE, {})]
    found: list[tuple[float, str, dict[str, str]]] = []
    for alternative in accept.split(","):
        media, *rest = (part.strip() for part in alternative.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        found.append((-quality, media, parameters))
    found.sort(key=lambda entry: entry[0])
    return [(media, parameters) for _, media, parameters in found]


def _to_yaml(document: object) -> bytes:
    from ktrain.local.apiserver.forms import yaml_form

    return yaml_form.dump(document)
