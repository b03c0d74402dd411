"""
The Job controller, on scenarios that were played with the real kube-controller-manager and recorded.

Without KUBEBUILDER_ASSETS ours plays them, in virtual time; with it the real one does, and must do again what it did.
"""

import pytest

from .playing import IS_RECORDING, load_scenarios, play_embedded, play_real, record, recording

SCENARIOS = load_scenarios()


@pytest.fixture(scope="session")
def chosen(request):
    """Return the scenarios that this run is about."""
    calls = (item.callspec for item in request.session.items if hasattr(item, "callspec"))
    names = [call.params["name"] for call in calls if call.params.get("name") in SCENARIOS]
    return {name: SCENARIOS[name] for name in names}


@pytest.fixture(scope="session")
def seen_on_the_real_one(real_server, chosen):
    return play_real(real_server, chosen) if real_server is not None else {}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_job_controller_does_what_upstream_does(name, real_server, seen_on_the_real_one):
    seen = play_embedded(SCENARIOS[name]) if real_server is None else seen_on_the_real_one[name]
    if isinstance(seen, Exception):
        raise seen
    if IS_RECORDING and real_server is not None:
        record(name, seen)

    assert seen == recording(name)
