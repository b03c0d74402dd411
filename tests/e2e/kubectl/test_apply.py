"""`kubectl apply`, both ways, and what goes with it: diff, prune, dry runs, validation."""

import json

import pytest

pytestmark = pytest.mark.e2e

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def managers(obj):
    return {(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]}


@pytest.fixture
def live(kubectl):
    """An object as it is, with who wrote what."""

    def get(*arguments):
        return json.loads(kubectl("get", *arguments, "-o", "json", "--show-managed-fields"))

    return get


def test_client_side_apply_creates_changes_and_sees_that_nothing_changed(kubectl, file, config_map):
    assert kubectl("apply", "-f", file(config_map("c", {"a": "1", "b": "2"}))) == "configmap/c created\n"
    assert kubectl("apply", "-f", file(config_map("c", {"a": "1", "b": "2"}))) == "configmap/c unchanged\n"
    assert kubectl("apply", "-f", file(config_map("c", {"a": "9"}))) == "configmap/c configured\n"

    found = kubectl.object("cm", "c")
    assert found["data"] == {"a": "9"}
    assert json.loads(found["metadata"]["annotations"][LAST_APPLIED])["data"] == {"a": "9"}


def test_client_side_apply_leaves_what_others_added(kubectl, file, config_map):
    kubectl("apply", "-f", file(config_map("c", {"a": "1"})))
    kubectl("patch", "cm", "c", "-p", '{"data":{"theirs":"x"}}')
    kubectl("apply", "-f", file(config_map("c", {"b": "2"})))

    assert kubectl.object("cm", "c")["data"] == {"b": "2", "theirs": "x"}


def test_client_side_apply_merges_lists_by_their_keys(kubectl, file):
    def service(*ports):
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s"},
            "spec": {"selector": {"a": "b"}, "ports": [{"name": f"p{port}", "port": port} for port in ports]},
        }

    kubectl("apply", "-f", file(service(80, 81)))
    kubectl("patch", "svc", "s", "-p", '{"spec":{"ports":[{"port":90,"name":"theirs"}]}}')
    kubectl("apply", "-f", file(service(80, 82)))

    assert {port["port"] for port in kubectl.object("svc", "s")["spec"]["ports"]} == {80, 82, 90}


def test_apply_of_a_pod_changes_what_pods_can_change(kubectl, file, pod):
    kubectl("apply", "-f", file(pod("p", containers=[{"name": "main", "image": "a", "command": ["sleep", "60"]}])))
    changed = pod("p", containers=[{"name": "main", "image": "b", "command": ["sleep", "60"]}])
    assert kubectl("apply", "-f", file(changed)) == "pod/p configured\n"

    changed["spec"]["restartPolicy"] = "Always"
    assert "pod updates may not change fields other than" in kubectl.fails("apply", "-f", file(changed))


def test_server_side_apply_owns_fields_and_finds_conflicts(kubectl, file, config_map, live):
    mine, theirs = file(config_map("c", {"a": "1"})), file(config_map("c", {"a": "2", "b": "3"}), name="theirs.yaml")
    assert kubectl("apply", "--server-side", "-f", mine) == "configmap/c serverside-applied\n"

    refusal = kubectl.fails("apply", "--server-side", "--field-manager=other", "-f", theirs)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refusal
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", theirs)

    found = live("cm", "c")
    assert found["data"] == {"a": "2", "b": "3"}
    assert managers(found) >= {("other", "Apply")}


def test_server_side_apply_drops_what_is_no_longer_said(kubectl, file, config_map):
    kubectl("apply", "--server-side", "-f", file(config_map("c", {"a": "1", "b": "2"})))
    kubectl("apply", "--server-side", "-f", file(config_map("c", {"a": "1"})))

    assert kubectl.object("cm", "c")["data"] == {"a": "1"}


def test_objects_applied_by_the_client_move_to_the_server(kubectl, file, config_map, live):
    kubectl("apply", "-f", file(config_map("c", {"a": "1", "b": "2"})))
    assert managers(live("cm", "c")) == {("kubectl-client-side-apply", "Update")}
    kubectl("apply", "--server-side", "-f", file(config_map("c", {"a": "1"})))

    found = live("cm", "c")
    assert found["data"] == {"a": "1"}
    assert managers(found) >= {("kubectl", "Apply")}
    assert ("kubectl-client-side-apply", "Update") not in managers(found)


def test_and_back_to_the_client(kubectl, file, config_map):
    kubectl("apply", "--server-side", "-f", file(config_map("c", {"a": "1"})))
    done = kubectl.run("apply", "-f", file(config_map("c", {"a": "2"})))

    assert done.returncode == 0
    assert f"missing the {LAST_APPLIED} annotation" in done.stderr
    assert kubectl.object("cm", "c")["data"] == {"a": "2"}


@pytest.mark.parametrize("way", [(), ("--server-side",)])
def test_custom_resources_are_applied_like_all_others(kubectl, things, file, way):
    kubectl("apply", *way, "-f", file(things("t", image="a", replicas=2)))
    kubectl("apply", *way, "-f", file(things("t", image="b")))

    assert kubectl.object("thing", "t")["spec"] == {"image": "b", "replicas": 1}


@pytest.mark.parametrize("where", ["client", "server"])
def test_a_dry_run_stores_nothing(kubectl, file, config_map, where):
    kubectl("apply", "-f", file(config_map("old", {"a": "1"})))
    both = file(config_map("old", {"a": "2"}), config_map("new"))

    out = kubectl("apply", f"--dry-run={where}", "-f", both)

    said = "(dry run)" if where == "client" else "(server dry run)"
    assert out == f"configmap/old configured {said}\nconfigmap/new created {said}\n"
    assert kubectl.object("cm", "old")["data"] == {"a": "1"}
    assert "not found" in kubectl.fails("get", "cm", "new")


def test_prune_deletes_what_left_the_files(kubectl, file, config_map):
    prune = ("--prune", "-l", "app=x", "--prune-allowlist=core/v1/ConfigMap")
    kubectl("apply", "-f", file(config_map("a", app="x"), config_map("b", app="x"), config_map("c", app="z")))
    out = kubectl("apply", *prune, "-f", file(config_map("a", app="x")))

    assert out == "configmap/a unchanged\nconfigmap/b pruned\n"
    assert kubectl("get", "cm", "-l", "app", "-o", "name").split() == ["configmap/a", "configmap/c"]


def test_prune_without_a_list_looks_at_its_usual_kinds(kubectl, file, config_map):
    kubectl("apply", "-f", file(config_map("a", app="w"), config_map("b", app="w")))
    out = kubectl("apply", "--prune", "-l", "app=w", "-f", file(config_map("a", app="w")))

    assert "configmap/b pruned" in out


def test_diff_shows_what_apply_would_change(kubectl, file, config_map):
    kubectl("apply", "-f", file(config_map("c", {"a": "1"})))
    assert kubectl("diff", "-f", file(config_map("c", {"a": "1"}))) == ""

    for way in ((), ("--server-side",)):
        done = kubectl.run("diff", *way, "-f", file(config_map("c", {"a": "2"})))
        assert done.returncode == 1, done.stderr
        assert '-  a: "1"' in done.stdout
        assert '+  a: "2"' in done.stdout
    assert kubectl.object("cm", "c")["data"] == {"a": "1"}


def test_apply_edits_its_own_annotation(kubectl, file, config_map):
    kubectl("create", "-f", file(config_map("c", {"a": "1"})))
    kubectl("apply", "set-last-applied", "--create-annotation", "-f", file(config_map("c", {"a": "1"})))

    assert json.loads(kubectl("apply", "view-last-applied", "cm/c", "-o", "json"))["data"] == {"a": "1"}


def test_a_list_is_checked_and_applied(kubectl, config_map, pod):
    wrong = pod("p")
    wrong["spec"]["containers"][0]["imag"] = "x"
    items = {"apiVersion": "v1", "kind": "List", "items": [config_map("a"), wrong]}
    refusal = kubectl.fails("apply", "-f", "-", stdin=items)

    assert 'unknown field "imag" in io.k8s.api.core.v1.Container' in refusal
    items["items"].pop()
    assert kubectl("apply", "-f", "-", stdin=items) == "configmap/a created\n"


@pytest.mark.parametrize("command", ["create", "apply"])
def test_unknown_fields_are_refused_unless_told_otherwise(kubectl, file, pod, command):
    wrong = pod("p")
    wrong["spec"]["restartpolicy"] = "Never"
    wrong["spec"]["containers"][0]["ports"] = [{"containerport": 80, "containerPort": 80}]

    refusal = kubectl.fails(command, "-f", file(wrong))
    assert "strict decoding error" in refusal
    assert 'unknown field "spec.containers[0].ports[0].containerport"' in refusal
    assert 'unknown field "spec.restartpolicy"' in refusal

    done = kubectl.run(command, "--validate=warn", "-f", file(wrong))
    assert done.returncode == 0
    assert 'Warning: unknown field "spec.restartpolicy"' in done.stderr
    kubectl("delete", "pod", "p", "--now")
    assert "Warning" not in kubectl.run(command, "--validate=ignore", "-f", file(wrong)).stderr
