"""Changing objects: create, patch, replace, edit, label, annotate, scale, set."""

import json

import pytest

pytestmark = pytest.mark.e2e


@pytest.fixture
def data(kubectl, config_map):
    """A ConfigMap `c`; returns a reader of its data."""
    kubectl.apply(config_map("c", {"a": "1", "b": "2"}))
    return lambda: kubectl.object("cm", "c")["data"]


def test_create_makes_objects_once(kubectl, file, config_map):
    manifest = file(config_map("a"), config_map("b"))

    assert kubectl("create", "-f", manifest) == "configmap/a created\nconfigmap/b created\n"
    assert 'configmaps "a" already exists' in kubectl.fails("create", "-f", manifest)


def test_create_takes_generated_names(kubectl, job):
    manifest = job("ignored")
    manifest["metadata"] = {"generateName": "many-"}
    made = [kubectl("create", "-f", "-", "-o", "name", stdin=manifest).strip() for _ in range(3)]

    assert len(set(made)) == 3
    assert all(name.startswith("job.batch/many-") for name in made)
    assert "cannot use generate name with apply" in kubectl.fails("apply", "-f", "-", stdin=manifest)


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        ("strategic", {"data": {"a": "9"}}, {"a": "9", "b": "2"}),
        ("strategic", {"data": {"a": None}}, {"b": "2"}),
        ("merge", {"data": {"b": None, "c": "3"}}, {"a": "1", "c": "3"}),
        ("json", [{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
        ("json", [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/b"}], {"a": "1"}),
    ],
)
def test_each_type_of_patch(kubectl, data, kind, patch, expected):
    assert kubectl("patch", "cm", "c", f"--type={kind}", "-p", json.dumps(patch)) == "configmap/c patched\n"
    assert data() == expected


def test_a_strategic_patch_merges_containers_by_name(kubectl, pod):
    kubectl.apply(pod("p"))
    kubectl("patch", "pod", "p", "-p", '{"spec":{"containers":[{"name":"main","image":"other"}]}}')

    (container,) = kubectl.object("pod", "p")["spec"]["containers"]
    assert (container["image"], container["command"][0]) == ("other", "sh")


def test_patches_that_change_nothing_or_cannot_be_made_say_so(kubectl, data, things):
    assert kubectl("patch", "cm", "c", "-p", '{"data":{"a":"1"}}') == "configmap/c patched (no change)\n"
    failing = '[{"op":"test","path":"/data/a","value":"x"}]'
    assert "the server rejected our request" in kubectl.fails("patch", "cm", "c", "--type=json", "-p", failing)
    assert 'configmaps "no" not found' in kubectl.fails("patch", "cm", "no", "-p", "{}")
    kubectl.apply(things("t"))
    refusal = kubectl.fails("patch", "thing", "t", "-p", '{"spec":{"image":"x"}}')
    assert "application/strategic-merge-patch+json is not supported by kubectl.test/v1, Kind=Thing" in refusal


def test_replace_puts_the_whole_object(kubectl, file, config_map, data):
    assert kubectl("replace", "-f", file(config_map("c", {"z": "1"}))) == "configmap/c replaced\n"
    assert data() == {"z": "1"}
    assert 'configmaps "no" not found' in kubectl.fails("replace", "-f", file(config_map("no")))
    before = kubectl.object("cm", "c")["metadata"]["uid"]
    out = kubectl("replace", "--force", "-f", file(config_map("c", {"y": "1"})))
    assert "configmap/c replaced" in out
    assert kubectl.object("cm", "c")["metadata"]["uid"] != before


def test_edit_sends_what_the_editor_left(kubectl, data, editor):
    out = kubectl("edit", "cm", "c", KUBE_EDITOR=editor('s/a: "1"/a: "edited"/'))
    assert out == "configmap/c edited\n"
    assert data() == {"a": "edited", "b": "2"}

    unchanged = kubectl.run("edit", "cm", "c", KUBE_EDITOR=editor(""))
    assert "Edit cancelled, no changes made." in unchanged.stdout + unchanged.stderr


def test_edit_works_on_custom_resources_and_on_a_status(kubectl, things, editor):
    kubectl.apply(things("t", image="a"))
    kubectl("edit", "thing", "t", KUBE_EDITOR=editor("s/image: a/image: b/"))
    status = "s/^spec:/status:\\n  phase: Edited\\nspec:/"
    kubectl("edit", "thing", "t", "--subresource=status", KUBE_EDITOR=editor(status))

    found = kubectl.object("thing", "t")
    assert (found["spec"]["image"], found["status"]) == ("b", {"phase": "Edited"})


def test_labels_and_annotations_are_set_changed_and_removed(kubectl, data):
    assert kubectl("label", "cm", "c", "k=1") == "configmap/c labeled\n"
    assert "'k' already has a value (1), and --overwrite is false" in kubectl.fails("label", "cm", "c", "k=2")
    kubectl("label", "cm", "c", "k=2", "--overwrite")
    kubectl("annotate", "cm", "c", "note=some words")
    metadata = kubectl.object("cm", "c")["metadata"]
    assert (metadata["labels"]["k"], metadata["annotations"]["note"]) == ("2", "some words")

    assert kubectl("label", "cm", "c", "k-") == "configmap/c unlabeled\n"
    kubectl("annotate", "cm", "--all", "note-")
    metadata = kubectl.object("cm", "c")["metadata"]
    assert "k" not in metadata.get("labels", {})
    assert "note" not in metadata["annotations"]


def test_scale_changes_replicas_of_what_has_them(kubectl, things, job):
    kubectl.apply(things("t"), job("j"))
    assert kubectl("scale", "thing/t", "--replicas=3") == "thing.kubectl.test/t scaled\n"
    assert kubectl.object("thing", "t")["spec"]["replicas"] == 3
    mismatch = kubectl.fails("scale", "thing/t", "--replicas=5", "--current-replicas=1")
    assert "Expected replicas to be 1, was 3" in mismatch

    assert "the server could not find the requested resource" in kubectl.fails("scale", "job/j", "--replicas=2")


def test_set_changes_an_image_and_a_pod_template(kubectl, pod, job):
    kubectl.apply(pod("p"), job("j"))
    assert kubectl("set", "image", "pod/p", "main=new") == "pod/p image updated\n"
    assert kubectl.object("pod", "p")["spec"]["containers"][0]["image"] == "new"
    kubectl("set", "resources", "job/j", "--limits=cpu=1,memory=1Gi")

    (container,) = kubectl.object("job", "j")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}


def test_rollouts_of_what_has_none_are_refused(kubectl, job, things):
    kubectl.apply(job("j"), things("t"))

    assert "no status viewer has been implemented for Job.batch" in kubectl.fails("rollout", "status", "job/j")
    assert "restarting is not supported" in kubectl.fails("rollout", "restart", "job/j")
    assert 'no kind "Thing" is registered' in kubectl.fails("rollout", "history", "thing/t")
