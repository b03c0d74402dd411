"""Without webhooks the JobSet controller reads JobSets with the defaults that a webhook would have stored."""

import msgspec

from ktrain.api.jobset import JobSet
from ktrain.controllers.jobset.children import has_dns
from ktrain.controllers.jobset.setup import _with_defaults


def stored(**spec):
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}
    body = {"metadata": {"name": "j", "namespace": "n", "uid": "u"}}
    body["spec"] = {"replicatedJobs": [{"name": "node", "template": template}], **spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=JobSet)


def test_pods_have_indexes_and_host_names():
    found = _with_defaults(stored())

    (node,) = found.spec.replicated_jobs
    spec = msgspec.json.decode(node.template)["spec"]
    assert (spec["completionMode"], spec["template"]["spec"]["restartPolicy"]) == ("Indexed", "OnFailure")
    assert has_dns(found)
    assert found.metadata == stored().metadata


def test_what_is_set_stays():
    chosen = stored(network={"enableDNSHostnames": False}, failurePolicy={"maxRestarts": 3}, suspend=True)
    found = _with_defaults(chosen)

    assert not has_dns(found)
    assert (found.spec.failure_policy.max_restarts, found.spec.suspend) == (3, True)
    assert _with_defaults(found) == found
