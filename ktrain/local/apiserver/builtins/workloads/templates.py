"""Pod templates of kinds that run pods for ever: what is filled in, and the rules that selectors add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.selectors import label_key_errors
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.builtins.pods.defaults import default_pod_spec
from ktrain.local.apiserver.builtins.pods.validation import (
    validate_agreement,
    validate_annotations,
    validate_pod_spec,
    validate_template_containers,
)
from ktrain.local.apiserver.builtins.values.selectors import is_empty, matches, validate_labels, validate_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause


def default_template(owner: Json) -> None:
    """Fill in the pod template in a spec."""
    template = owner.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}), requests=False)


def validate_selected_template(spec: Json, field: str, kind: str) -> Iterator[Cause]:
    """Yield what is wrong with a selector and the template it has to match; `kind` is for the messages."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    # ReplicationControllers have no selectors but labels, of which only is asked that they are the template's.
    malformed = [] if kind == "ReplicationController" else list(validate_selector(selector, f"{field}.selector"))
    yield from malformed
    if selector is None:
        if kind != "DaemonSet":
            yield causes.required(f"{field}.selector")
    elif is_empty(selector):
        what = kind.replace("ReplicaSet", "Deployment").lower()
        yield causes.invalid(f"{field}.selector", selector, f"empty selector is invalid for {what}")
    if malformed:
        yield from _refuse_selector(selector, f"{field}.selector", kind)
    else:
        labels = (template.get("metadata") or {}).get("labels")
        if not matches(selector, labels):
            detail = "`selector` does not match template `labels`"
            yield causes.invalid(f"{field}.template.metadata.labels", labels, detail)
        yield from validate_template(template, f"{field}.template")
    pod = template.get("spec") or {}
    if pod.get("restartPolicy") != "Always":
        policy = pod.get("restartPolicy", "")
        yield causes.not_supported(f"{field}.template.spec.restartPolicy", policy, ["Always"])
    if "activeDeadlineSeconds" in pod:
        detail = f"activeDeadlineSeconds in {kind.replace('Deployment', 'ReplicaSet')} is not Supported"
        yield causes.forbidden(f"{field}.template.spec.activeDeadlineSeconds", detail)


def _refuse_selector(selector: Json | None, field: str, kind: str) -> Iterator[Cause]:
    if kind == "StatefulSet":
        cause = causes.invalid(field, selector, "")
        yield cause._replace(message=cause.message.removesuffix(": "))
    elif kind != "DaemonSet":
        yield causes.invalid(field, selector, "invalid label selector")


def validate_template(template: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with any pod template."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from validate_labels(meta.get("labels"), f"{field}.labels")
    yield from validate_pod_spec(spec, f"{field}.spec")
    yield from validate_template_containers(spec, f"{field}.spec")
    if annotations := meta.get("annotations"):
        here = f"{field}.annotations"
        yield from (causes.invalid(here, key, text) for key in annotations for text in label_key_errors(key.lower()))
        yield from validate_annotations(annotations, spec, here)
        yield from validate_agreement(annotations, spec, f"{field}.spec")


def warn_of_name(owner: Json) -> list[str]:
    """Return what to know about the name of a new object whose pods are named after it."""
    meta = owner["metadata"]
    problems = names.label(meta.get("name", ""))
    if not problems or meta.get("generation", 1) != 1:
        return []
    risk = "this is used in Pod names and hostnames, which can result in surprising behavior"
    return [f"metadata.name: {risk}; a DNS label is recommended: [{' '.join(problems)}]"]
