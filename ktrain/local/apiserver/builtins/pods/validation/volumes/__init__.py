"""Volumes of pods, a module for each family of sources, in the API server's words."""

from ktrain.local.apiserver.builtins.pods.validation.volumes.listing import validate_volumes as validate_volumes
