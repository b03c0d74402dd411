import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.framework.webhook import CannotConvert, Conversion, keep, recall, respond_conversion
from ktrain.testing.time import simulate


def up(site):
    site["spec"] = {"hosts": [site["spec"]["host"]], **recall(site)}
    return site


def down(site):
    host, *others = site["spec"]["hosts"]
    kept = {name: value for name, value in site["spec"].items() if name != "hosts"}
    if others:
        kept["hosts"] = site["spec"]["hosts"]
    site["spec"] = {"host": host}
    return keep(site, kept) if kept else site


def websites():
    conversion = Conversion("example.com", "Website", hub="v2")
    conversion.spoke("v1", to_hub=up, from_hub=down)
    conversion.spoke("v1beta1", to_hub=up, from_hub=down)
    return conversion


def website(version="v1", spec=None, **metadata):
    metadata = {"name": "a", "namespace": "ns", "uid": "u", **metadata}
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Website",
        "metadata": metadata,
        "spec": spec or {"host": "h"},
    }


def ask(*objects, to="example.com/v2", conversion=None, body=None, version="v1", panics=None):
    request = {"uid": "7", "desiredAPIVersion": to, "objects": objects}
    document = {"apiVersion": f"apiextensions.k8s.io/{version}", "kind": "ConversionReview", "request": request}
    kinds = {("example.com", "Website"): conversion or websites()}
    on_panic = (lambda: panics.append(1)) if panics is not None else (lambda: None)

    async def scenario(env):
        return await respond_conversion(kinds, body or msgspec.json.encode(document), on_panic=on_panic)

    answer = simulate(scenario)
    assert (answer["apiVersion"], answer["kind"]) == (f"apiextensions.k8s.io/{version}", "ConversionReview")
    assert answer["response"]["uid"] == "7"
    return answer["response"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_objects_come_back_in_order_and_in_the_version_that_was_asked_for(version):
    names = [f"n{n}" for n in range(200)]
    response = ask(*(website(name=name) for name in names), version=version)

    assert response["result"] == {"status": "Success"}
    assert [one["metadata"]["name"] for one in response["convertedObjects"]] == names
    assert {one["apiVersion"] for one in response["convertedObjects"]} == {"example.com/v2"}
    assert response["convertedObjects"][0]["spec"] == {"hosts": ["h"]}


def test_spoke_to_spoke_goes_through_the_hub():
    response = ask(website("v1"), to="example.com/v1beta1")
    assert response["convertedObjects"] == [website("v1beta1")]


def test_an_object_in_the_version_asked_for_is_left_alone():
    odd = website("v2", spec={"anything": 1})
    assert ask(odd)["convertedObjects"] == [odd]


@given(st.lists(st.text(), min_size=1), st.dictionaries(st.text(min_size=1), st.integers() | st.text()))
def test_what_an_old_version_cannot_say_survives_the_way_down_and_up(hosts, more):
    site = website("v2", spec={**more, "hosts": hosts}, annotations={"mine": "1"}, labels={"a": "b"})
    before = copy.deepcopy(site)
    old = websites().convert(site, "v1")
    assert old["spec"] == {"host": hosts[0]}
    assert websites().convert(old, "v2") == before == site


def test_an_annotation_that_a_user_wrote_over_the_kept_values_is_no_value():
    site = website(annotations={"ktrain.framework/kept": "[not json"})
    (converted,) = ask(site)["convertedObjects"]
    assert converted["spec"] == {"hosts": ["h"]}
    assert "annotations" not in converted["metadata"]


def changed(change):
    def function(document):
        change(document)
        return document

    conversion = Conversion("example.com", "Website", hub="v2")
    conversion.spoke("v1", to_hub=function, from_hub=function)
    return conversion


def test_metadata_other_than_labels_and_annotations_must_stay():
    def relabel(document):
        document["metadata"] |= {"labels": {"a": "b"}, "annotations": {}}

    def rename(document):
        document["metadata"] |= {"name": "b", "finalizers": ["f"]}

    assert ask(website(), conversion=changed(relabel))["result"]["status"] == "Success"
    result = ask(website(), conversion=changed(rename))["result"]
    assert result["status"] == "Failure"
    assert "changed metadata.finalizers, metadata.name" in result["message"]


def test_one_failure_fails_the_request_and_names_the_object():
    def refuse(document):
        if document["metadata"]["name"] == "bad":
            raise CannotConvert("it has no host")

    panics = []
    response = ask(website(), website(name="bad"), conversion=changed(refuse), panics=panics)

    message = "Website ns/bad of example.com/v1 cannot be converted to example.com/v2: it has no host"
    assert response["result"] == {"status": "Failure", "message": message}
    assert (response["convertedObjects"], panics) == ([], [])


def test_a_crash_is_a_failure_and_a_panic():
    panics = []
    response = ask(website(), conversion=changed(lambda document: document["spec"]["nope"]), panics=panics)
    assert "the conversion failed: KeyError('nope')" in response["result"]["message"]
    assert panics == [1]


@pytest.mark.parametrize(
    ("obj", "to", "message"),
    [
        (website("v9"), "example.com/v2", "version v9 is not known; known are v2, v1, v1beta1"),
        (website(), "example.com/v9", "version v9 is not known"),
        (website() | {"kind": "Other"}, "example.com/v2", "nothing is registered here for this kind"),
        (website(), "other.com/v2", "nothing is registered here"),
        ({"metadata": [1]}, "example.com/v2", "nothing is registered here"),
    ],
)
def test_what_nobody_registered_fails_with_a_message(obj, to, message):
    assert message in ask(obj, to=to)["result"]["message"]


DEEP = b'{"a":' * 100_000 + b"[]" + b"}" * 100_000


@pytest.mark.parametrize(
    ("objects", "message"),
    [(b"[%s]" % DEEP, "is nested too deeply"), (b"7", "is no ConversionReview"), (b'[{"a":"\xff"}]', "utf-8")],
)
def test_what_is_no_review_fails_under_the_uid_it_came_with(objects, message):
    body = b'{"kind":"ConversionReview","request":{"objects":%s,"uid":"7"}}' % objects
    assert message in ask(body=body)["result"]["message"]


def test_a_version_is_registered_once():
    conversion = websites()
    for version in ("v1", "v2"):
        with pytest.raises(ValueError, match="already"):
            conversion.spoke(version, to_hub=up, from_hub=down)
