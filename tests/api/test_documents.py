import contextlib
import io
import json
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api.documents import DocumentError, is_namespaced, load, resource_of
from ktrain.api.documents.load import MAX_BYTES
from ktrain.api.documents.parse import parse

JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: x
  labels: {a.b/c: "1"}
spec:
  runtimeRef: {name: torch-distributed}
"""


def read(text):
    return load(["-"], stdin=io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def problems(text):
    with pytest.raises(DocumentError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def values(text):
    return [parsed.value for parsed in parse(text.encode(), "f")]


def test_all_documents_of_all_files_come_in_order_with_their_lines(tmp_path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.json"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    first.write_text(f"# nothing\n---\n---\n{JOB}---\n{JOB.replace('x', 'z')}")
    second.write_text(json.dumps(config, indent="\t"))

    found = load([first, str(second)])

    assert [(str(first), 4), (str(first), 12), (str(second), 1)] == [(d.file, d.line) for d in found]
    assert config == found[2].object


def test_lists_are_flattened_and_typed_items_get_their_kind():
    item = {"metadata": {"name": "x"}, "spec": {"runtimeRef": {"name": "r"}}}
    typed = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJobList", "items": [item]}
    pod = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}

    found = read(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [typed, pod]}))

    assert [d.object["kind"] for d in found] == ["TrainJob", "ConfigMap"]


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ("  trainer:\n    numNode: 2", '<stdin>:9: spec.trainer.numNode: unknown field; did you mean "numNodes"?'),
        ("  numNodes: 2", '<stdin>:8: spec.numNodes: unknown field; did you mean "trainer.numNodes"?'),
        ("  trainer:\n    NUMNODES: 2", '<stdin>:9: spec.trainer.NUMNODES: unknown field; did you mean "numNodes"?'),
        ('  trainer:\n    numNodes: "2"', '<stdin>:9: spec.trainer.numNodes: expected integer, found string "2"'),
        ("  trainer:\n    command: python", '<stdin>:9: spec.trainer.command: expected array, found string "python"'),
        (
            "  trainer:\n    env:\n    - name: a\n      value: 3",
            "<stdin>:11: spec.trainer.env[0].value: expected string, found integer 3; put it in quotes",
        ),
        ("  trainer:\n    env:\n    - value: a", "<stdin>:10: spec.trainer.env[0].name: missing, but required"),
        (
            "  trainer:\n    resourcesPerNode:\n      limits: {cpu: 3x}",
            '<stdin>:10: spec.trainer.resourcesPerNode.limits.cpu: "3x" is not a quantity, like 2, 500m or 1.5Gi',
        ),
        ("  suspend: maybe", '<stdin>:8: spec.suspend: expected boolean, found string "maybe"'),
        (
            "  runtimePatches:\n  - manager: a/b\n    time: today",
            '<stdin>:10: spec.runtimePatches[0].time: expected date-time, found "today"',
        ),
        ("zork: 1", "<stdin>:8: zork: unknown field; there are apiVersion, kind, metadata, spec, status"),
    ],
)
def test_what_is_wrong_with_a_field_is_told_with_line_and_path(added, problem):
    assert [problem] == problems(f"{JOB}{added}\n")


def test_keys_with_dots_are_found():
    assert problems(JOB.replace('"1"', "1")) == [
        "<stdin>:5: metadata.labels.a.b/c: expected string, found integer 1; put it in quotes"
    ]


def test_pod_templates_inside_are_checked():
    pod = "spec: {template: {spec: {containers: [{name: a, imagee: x}]}}}"

    found = problems(f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\n{pod}\n")

    assert found == ['<stdin>:4: spec.template.spec.containers[0].imagee: unknown field; did you mean "image"?']


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: TrainJob", "<stdin>:1: apiVersion: missing; every object says its apiVersion and kind"),
        ("apiVersion: v1\nkind: ConfigMp", "<stdin>:2: unknown kind 'ConfigMp' (v1); did you mean \"ConfigMap\"?"),
        (
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob",
            (
                "<stdin>:2: unknown kind 'PyTorchJob' (kubeflow.org/v1); write a TrainingRuntime and a TrainJob:"
                " docs/plugins/torch.md, Coming from PyTorchJob, has its fields"
            ),
        ),
        (
            "apiVersion: batch/v2\nkind: Job",
            "<stdin>:2: there is no Job in batch/v2; did you mean apiVersion batch/v1?",
        ),
        ("apiVersion: v1\nkind: ConfigMap", "<stdin>:1: metadata.name: missing; every object has a name"),
        ("- 1", "<stdin>:1: expected an object, found a list"),
        ("# nothing", "<stdin>: holds no object"),
        ("a: b: c", "<stdin>:1:5: not YAML: mapping values are not allowed in this context"),
        ("a:\n\tb: 1", "<stdin>:2:1: not YAML: a tab, where YAML takes blanks only"),
        ("a:\n  b: 1\n  b: 2", "<stdin>:3: the key 'b' is set already in line 2"),
        (b"a: 1\nb: \xff", "<stdin>:2: not UTF-8 text"),
        (
            "a: !!python/object:os.system x",
            "<stdin>:1: the tag tag:yaml.org,2002:python/object:os.system means nothing here",
        ),
        ("a: *b", "<stdin>:1: the alias *b refers to nothing"),
        ("a: &b [*b]", "<stdin>:1: the anchor &b contains itself"),
        ("? [a]\n: b", "<stdin>:1: a mapping's key must be a word, not a list or a mapping"),
        ('{"a": 1,', "<stdin>: neither YAML nor JSON"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(text, problem):
    assert problems(text)[0].startswith(problem)


def test_problems_of_all_files_are_told_together(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(JOB + "  trainer: {numNode: 1, comand: []}\n")

    with pytest.raises(DocumentError) as caught:
        load([tmp_path / "none.yaml", bad, tmp_path])

    lines = str(caught.value).splitlines()
    assert [
        "none.yaml: cannot be read: No such file" in lines[0],
        "cannot be read: Is a directory" in lines[1],
        '"command"' in lines[2],
        '"numNodes"' in lines[3],
    ] == [True] * 4


def test_a_bomb_of_aliases_is_refused_in_a_moment():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    bomb += "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))

    started = time.monotonic()
    [problem] = problems(bomb)

    assert "are there aliases of aliases?" in problem
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_instead_of_ending_the_process(opening):
    assert "nested deeper than 100 levels" in problems(opening * 5000)[0]


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(50 * 2**20)

    started = time.monotonic()
    with pytest.raises(DocumentError, match="the file of 50 MB is too large; all files together may have 16 MB"):
        load([huge])

    assert time.monotonic() - started < 0.5


def test_standard_input_is_read_no_further_than_the_limit():
    class Endless(io.RawIOBase):
        taken = 0

        def read(self, size=-1):
            Endless.taken += size
            return b" " * size

    with pytest.raises(DocumentError, match="too large"):
        load(["-"], stdin=Endless())

    assert Endless.taken == MAX_BYTES + 1


def test_words_mean_what_the_api_server_takes_them_for():
    text = "[y, NO, on, ~, '', 1_000, 010, 0x1F, 1e3, 1.5, 1:30, 2026-01-02, 08.5, 'yes', .5, -, 0o17, 1.2.3]"

    assert values(text) == [
        [True, False, True, None, "", 1000, 8, 31, 1000, 1.5, "1:30", "2026-01-02", 8.5, "yes", 0.5, "-", 15, "1.2.3"]
    ]
    assert values("on: 1\n5: 2") == [{"true": 1, "5": 2}]


def test_aliases_and_merge_keys_are_resolved():
    assert values("a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}\nc: *a") == [
        {"a": {"x": 1, "z": 2}, "b": {"x": 1, "z": 3}, "c": {"x": 1, "z": 2}}
    ]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=4), json_values, min_size=1))
def test_every_json_document_reads_as_itself(document):
    assert [document] == values(json.dumps(document))


@given(st.text(alphabet="ab:-[]{}&*!?|># \n'\",<1", max_size=40))
def test_any_text_gives_values_or_problems_and_nothing_else(text):
    with contextlib.suppress(DocumentError):
        assert all(value is not None for value in values(text))


def test_kinds_of_crds_in_the_same_files_are_known():
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ws.ex.test"},
        "spec": {
            "group": "ex.test", "scope": "Namespaced", "names": {"plural": "ws", "kind": "W"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"size": {"type": "integer"}}}}}],
        },
    }  # fmt: skip
    item = {"apiVersion": "ex.test/v1", "kind": "W", "metadata": {"name": "w"}, "sise": 1}

    assert problems(f"{json.dumps(crd)}\n--- {json.dumps(item)}") == [
        '<stdin>:2: sise: unknown field; did you mean "size"?'
    ]


def test_resources_of_objects():
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}

    assert resource_of(job).qualified_name == "trainjobs.trainer.kubeflow.org"
    assert is_namespaced(job)
    assert not is_namespaced({"apiVersion": "v1", "kind": "Namespace"})
    with pytest.raises(LookupError):
        resource_of({"apiVersion": "v1", "kind": "Nonesuch"})


def test_a_url_is_told_to_be_no_file():
    with pytest.raises(DocumentError, match="cannot be read: it is no file but a URL"):
        list(load(["https://example.com/job.yaml"]))
