"""Which plugins an operator's configuration asks for, and what it tells them."""

import pytest
from structlog.testing import capture_logs

from ktrain.cli.config import Configuration, Plugins
from ktrain.cli.plugin_choice import registry_of
from ktrain.cli.startup import changed


def test_a_plugin_that_is_disabled_is_not_there():
    assert "Volcano" in registry_of(Configuration()).names

    registry = registry_of(Configuration(plugins=Plugins(disabled=("Volcano", "Nobody"))))

    assert "Volcano" not in registry.names
    assert "JobSet" in registry.names


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (Plugins(allowed=("Acme",)), "plugins.allowed"),
        (Plugins(config={"Acme": {"a": 1}, "Torch": {}}), "plugins.config"),
    ],
)
def test_a_name_that_no_plugin_has_is_told(wanted, field):
    with capture_logs() as lines:
        registry_of(Configuration(plugins=wanted))

    told = [line for line in lines if line["event"] == "plugin.not_installed"]
    assert [(line["field"], line["plugins"]) for line in told] == [(field, ["Acme"])]


def test_the_first_line_of_the_log_names_configured_plugins_and_not_what_they_are_told():
    configuration = Configuration(plugins=Plugins(disabled=("Volcano",), config={"Acme": {"token": "s3cret"}}))

    assert dict(changed(configuration)) == {"plugins.disabled": ("Volcano",), "plugins.config": ["Acme"]}
