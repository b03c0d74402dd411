"""What the server warns of in pods and templates that it accepts: what has no effect, or not the one expected."""

from ktrain.local.apiserver.builtins.pods.warnings.spec import warn_of_pod as warn_of_pod
from ktrain.local.apiserver.builtins.pods.warnings.spec import warn_of_template as warn_of_template
