"""Validation of pods and pod templates, a module for each part of the spec, in the API server's words."""

from ktrain.local.apiserver.builtins.pods.validation.containers import validate_images as validate_images
from ktrain.local.apiserver.builtins.pods.validation.containers import (
    validate_template_containers as validate_template_containers,
)
from ktrain.local.apiserver.builtins.pods.validation.spec import validate_pod_spec as validate_pod_spec
