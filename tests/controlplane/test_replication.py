"""ReplicationControllers, which are stored and which nobody acts on."""

URL = "/api/v1/namespaces/{ns}/replicationcontrollers"


def template(**spec):
    pod = {"containers": [{"name": "c", "image": "none"}], **spec}
    return {"metadata": {"labels": {"a": "b"}}, "spec": pod}


async def test_selector_and_labels_are_those_of_the_template(ask):
    body = {"metadata": {"name": "x"}, "spec": {"replicas": 0, "template": template()}}
    made = (await ask("POST", URL, body)).body

    assert made["spec"]["selector"] == made["metadata"]["labels"] == {"a": "b"}
    assert made["status"] == {"replicas": 0}


async def test_a_selector_has_to_match_and_a_template_has_to_be_there(ask):
    spec = {"replicas": -1, "selector": {"x": "y"}, "template": template(restartPolicy="Never")}
    wrong = await ask("POST", URL, {"metadata": {"name": "x"}, "spec": spec})
    empty = await ask("POST", URL, {"metadata": {"name": "x"}, "spec": {}})

    assert {cause["field"] for cause in wrong.body["details"]["causes"]} == {
        "spec.replicas",
        "spec.template.metadata.labels",
        "spec.template.spec.restartPolicy",
    }
    assert {cause["field"] for cause in empty.body["details"]["causes"]} == {"spec.selector", "spec.template"}
