"""Validation of pods and pod templates, a module for each part of the spec, in the API server's words."""

from ktrain.local.apiserver.builtins.pods.validation.annotations import validate_agreement as validate_agreement
from ktrain.local.apiserver.builtins.pods.validation.annotations import validate_annotations as validate_annotations
from ktrain.local.apiserver.builtins.pods.validation.annotations import validate_kept as validate_kept
from ktrain.local.apiserver.builtins.pods.validation.containers import (
    validate_template_containers as validate_template_containers,
)
from ktrain.local.apiserver.builtins.pods.validation.spec import validate_new_pod as validate_new_pod
from ktrain.local.apiserver.builtins.pods.validation.spec import validate_pod as validate_pod
from ktrain.local.apiserver.builtins.pods.validation.spec import validate_pod_spec as validate_pod_spec
