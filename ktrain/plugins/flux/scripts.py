"""
The programs of the pods: what is known of a job, as variables of a shell, and below them a text that never changes.

The user's program is in the script word by word. In the container's command it is one text, as in Kubeflow's Trainer,
where words with spaces fall apart: there `bash -c 'a b'` runs `bash -c a b`. References to variables, which a kubelet
would replace in a command (`$(NAME)`), are replaced by the shell.
"""

from __future__ import annotations

import json
import re
import shlex
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .job import FluxJob

ROOT: Final = "/mnt/flux"
_CONFIGURATION: Final = f"{ROOT}/config/etc"
_PORT: Final = 8050
_INIT: Final = files(__package__).joinpath("init.sh").read_text()
_ENTRYPOINT: Final = files(__package__).joinpath("entrypoint.sh").read_text()
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def init(job: FluxJob) -> str:
    """Return what runs in the image that brings Flux."""
    return _script(_INIT, {"hosts": shlex.quote(job.hosts), "broker_toml": shlex.quote(broker_toml(job))})


def entrypoint(job: FluxJob) -> str:
    """Return what runs in the user's image."""
    variables = {
        "lead": shlex.quote(job.lead),
        "hosts": shlex.quote(job.hosts),
        "resources": _array(map(shlex.quote, job.resources)),
        "run_options": _array(map(shlex.quote, job.run_options)),
        "program": _array(map(word, job.words)),
    }
    return _script(_ENTRYPOINT, variables)


def broker_toml(job: FluxJob) -> str:
    """Return the configuration of every broker."""
    device, policy = job.setting("FLUX_NETWORK_DEVICE"), job.setting("FLUX_QUEUE_POLICY")
    return f"""\
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "{_CONFIGURATION}/flux/system/R"

[bootstrap]
curve_cert = "{_CONFIGURATION}/curve/curve.cert"
default_port = {_PORT}
default_bind = {_toml(f"tcp://{device}:%p")}
default_connect = {_toml(f"tcp://%h.{job.domain}:%p")}
hosts = [{{ host = {_toml(job.hosts)} }}]

[archive]
dbpath = "{ROOT}/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = {_toml(policy)}
"""


def word(text: str) -> str:
    """
    Quote a word of a command for the shell. `$(NAME)` becomes the variable's value where there is one, `$$` a `$`.

    Source of the rule: `command` of a container in the API reference.
    """
    parts: list[str] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        parts += _quoted(text[end : match.start()])
        name = match[1]
        parts.append(f'"${{{name}-\\$({name})}}"' if name else "'$'")
        end = match.end()
    return "".join([*parts, *_quoted(text[end:])]) or "''"


def _quoted(text: str) -> list[str]:
    return [shlex.quote(text)] if text else []


def _script(body: str, variables: dict[str, str]) -> str:
    assignments = "".join(f"{name}={value}\n" for name, value in variables.items())
    return f"#!/bin/bash\n{assignments}\n{body}"


def _array(words: Iterable[str]) -> str:
    return f"({' '.join(words)})"


def _toml(text: str) -> str:
    """A TOML string is escaped as a JSON string is."""
    return json.dumps(text)
