"""The control plane of local mode."""

from __future__ import annotations

import textwrap

import anyio
from structlog.testing import capture_logs

from ktrain.framework.env import system_env
from ktrain.local.plane import ControlPlane

PLUGIN = """
    from ktrain.api.meta import Object, Resource
    from ktrain.pipeline import Watch


    class Gang:
        name = "Gang"

        def watches(self):
            kind = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, type=Object)
            return (Watch(kind, owned=True),)
"""


async def test_an_installed_plugin_for_a_scheduler_that_is_not_here_does_not_keep_it_from_starting(
    tmp_path, monkeypatch
):
    (tmp_path / "a_gang_plugin.py").write_text(textwrap.dedent(PLUGIN))
    metadata = tmp_path / "a_gang_plugin-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-gang-plugin\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[ktrain.plugins]\nGang = a_gang_plugin:Gang\n")
    monkeypatch.syspath_prepend(tmp_path)

    with capture_logs() as logs, anyio.fail_after(10):
        async with ControlPlane(system_env(), pods="off").running():
            pass

    assert [entry["kind"] for entry in logs if entry["event"] == "plugin.kind_left_out"] == [
        "podgroups.scheduling.volcano.sh"
    ]
