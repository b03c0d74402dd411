"""`kubectl get`: what it prints, which objects it chooses, how it watches."""

import json

import pytest
import yaml

pytestmark = pytest.mark.e2e


@pytest.fixture
def three(kubectl, config_map):
    """ConfigMaps of this test: a and b of the colour red, c of blue."""
    kubectl.apply(
        config_map("b", {"k": "2"}, colour="red"),
        config_map("a", {"k": "3"}, colour="red", size="big"),
        config_map("c", {"k": "1"}, colour="blue"),
    )
    return kubectl


def names(output):
    return [line.removeprefix("configmap/") for line in output.split() if line != "configmap/kube-root-ca.crt"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("name", "configmap/a\n"),
        ("jsonpath={.data.k}", "3"),
        ("jsonpath={.metadata.labels['colour']}", "red"),
        ("go-template={{.data.k}}-{{.kind}}", "3-ConfigMap"),
        ("custom-columns=NAME:.metadata.name,K:.data.k,NO:.data.none", "NAME   K     NO\na      3     <none>\n"),
        ("custom-columns=:.data.k", "\n3\n"),
    ],
)
def test_one_object_in_each_form(three, form, expected):
    assert three("get", "configmap", "a", "-o", form) == expected


def test_json_and_yaml_hold_the_same_object(three):
    as_json = json.loads(three("get", "cm", "a", "-o", "json"))
    as_yaml = yaml.safe_load(three("get", "cm/a", "-o", "yaml"))

    assert as_json == as_yaml
    assert (as_json["kind"], as_json["data"]) == ("ConfigMap", {"k": "3"})
    assert "managedFields" not in as_json["metadata"]
    shown = yaml.safe_load(three("get", "cm/a", "-o", "yaml", "--show-managed-fields"))
    assert shown["metadata"]["managedFields"][0]["manager"] == "kubectl-client-side-apply"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-l", "colour=red"), ["a", "b"]),
        (("-l", "colour=red,size"), ["a"]),
        (("-l", "colour in (blue,green)"), ["c"]),
        (("-l", "colour,colour!=red"), ["c"]),
        (("--field-selector", "metadata.name=b"), ["b"]),
        (("-l", "colour", "--sort-by=.data.k"), ["c", "b", "a"]),
        (("-l", "colour", "--sort-by={.metadata.name}"), ["a", "b", "c"]),
        (("-l", "colour", "--chunk-size=1"), ["a", "b", "c"]),
        (("b", "c"), ["b", "c"]),
    ],
)
def test_which_objects_and_in_which_order(three, options, expected):
    assert names(three("get", "configmaps", *options, "-o", "name")) == expected


def test_tables_show_labels_and_leave_out_headers(three):
    header, row = three("get", "cm", "a", "--show-labels").splitlines()
    assert header.split() == ["NAME", "DATA", "AGE", "LABELS"]
    assert row.split()[:2] == ["a", "1"]
    assert row.split()[3] == "colour=red,size=big"
    assert three("get", "cm", "a", "-L", "colour", "--no-headers").split()[3:] == ["red"]


def test_wide_tables_have_more_columns(kubectl, things):
    kubectl.apply(things("t", image="none"))

    assert kubectl("get", "th").split()[:2] == ["NAME", "REPLICAS"]
    assert kubectl("get", "th", "-o", "wide").split() == ["NAME", "REPLICAS", "IMAGE", "t", "1", "none"]


def test_pods_have_their_columns(kubectl, pod):
    kubectl.apply(pod("p"))

    assert kubectl("get", "pods").splitlines()[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    wide = " ".join(kubectl("get", "pods", "-o", "wide").splitlines()[0].split())
    assert wide == "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"


def test_several_kinds_at_once_and_all_namespaces(three, job):
    three.apply(job("j"))

    assert "job.batch/j\nconfigmap/a" in three("get", "job/j", "cm/a", "-o", "name")
    everywhere = three("get", "cm", "-A", "--field-selector", f"metadata.namespace={three.namespace}", "-l", "size")
    assert everywhere.splitlines()[1].split()[:2] == [three.namespace, "a"]
    assert "job.batch/j" in three("get", "all")


def test_what_is_not_there_is_said_so(kubectl):
    assert 'configmaps "nope" not found' in kubectl.fails("get", "cm", "nope")
    assert kubectl("get", "cm", "nope", "--ignore-not-found") == ""
    assert 'the server doesn\'t have a resource type "nopes"' in kubectl.fails("get", "nopes")
    assert "No resources found in" in kubectl.run("get", "jobs").stderr


def test_a_status_is_shown_alone(kubectl, things):
    kubectl.apply(things("t"))
    kubectl("patch", "thing", "t", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Good"}}')

    assert kubectl("get", "thing", "t", "--subresource=status", "-o", "jsonpath={.status.phase}") == "Good"
    scale = json.loads(kubectl("get", "thing", "t", "--subresource=scale", "-o", "json"))
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 1})


def test_a_watch_prints_what_is_there_and_every_change(three):
    watch = three.start("get", "cm", "-w", "-l", "colour=blue", "-o", "custom-columns=N:.metadata.name,K:.data.k")
    try:
        assert watch.stdout.readline().split() == ["N", "K"]
        assert watch.stdout.readline().split() == ["c", "1"]
        for value in ("x", "y"):
            three("patch", "cm", "c", "-p", json.dumps({"data": {"k": value}}))
            assert watch.stdout.readline().split() == ["c", value]
    finally:
        watch.kill()
        watch.communicate()


def test_a_watch_can_print_events_alone(three):
    watch = three.start("get", "cm", "--watch-only", "--output-watch-events", "-l", "new", "--no-headers")
    try:
        # Until the watch runs nothing tells when it does: what is made before is not seen.
        made = 0
        while made < 100 and not _readable(watch):
            three("create", "-f", "-", stdin=_labelled(f"w{made}"))
            made += 1
        event, name = watch.stdout.readline().split()[:2]
        assert event == "ADDED"
        assert name.startswith("w")
    finally:
        watch.kill()
        watch.communicate()


def _labelled(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"new": "1"}}}


def _readable(process):
    import select

    return bool(select.select([process.stdout], [], [], 0.1)[0])


def test_raw_paths_and_a_proxy_lead_to_the_server(server):
    import urllib.request

    assert json.loads(server("get", "--raw", "/api/v1/namespaces/default"))["kind"] == "Namespace"
    assert "/apis/batch/v1" in json.loads(server("get", "--raw", "/"))["paths"]
    assert server("get", "--raw", "/readyz") == "ok"
    assert "the server could not find the requested resource" in server.fails("get", "--raw", "/nope")

    proxy = server.start("proxy", "--port=0")
    try:
        address = proxy.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"http://{address}/api/v1/namespaces/default", timeout=10) as answer:
            assert json.load(answer)["metadata"]["name"] == "default"
    finally:
        proxy.kill()
        proxy.communicate()
