"""Runtime patches: strategic merge over the runtime's template, before everything else."""

RUNTIME = """
spec:
  mlPolicy: {numNodes: 1}
  template:
    metadata: {labels: {tier: gold, owner: platform}}
    spec:
      replicatedJobs:
      - name: first
        template: {spec: {template: {spec: {
          initContainers: [{name: init, env: [{name: INIT_ENV, value: a}, {name: DATASET_PATH, value: p}]}],
          containers: [{name: main, volumeMounts: [{name: v, mountPath: /a, readOnly: true}]}],
          volumes: [{name: v, emptyDir: {}}], nodeSelector: {pool: a, zone: z}, tolerations: [{key: old}]}}}}
      - name: node
        template: {metadata: {labels: L, annotations: {job: runtime}}, spec: {template: {metadata: {labels: {q: '0'}},
          spec: {containers: [{name: node, env: [{name: A, value: a}]}]}}}}
"""
JOB = """
metadata: {name: tj, namespace: team, uid: u}
spec:
  runtimeRef: {name: rt}
  trainer: {env: [{name: A, value: job}]}
  runtimePatches:
  - manager: acme.io/one
    trainingRuntimeSpec: {template: {metadata: {labels: {tier: silver}, annotations: {ticket: T-1}},
      spec: {replicatedJobs: [
      {name: node, template: {metadata: {annotations: {job: patched}}, spec: {template: {
        metadata: {labels: {q: '1'}}, spec: {nodeSelector: {pool: b}}}}}},
      {name: first, template: {spec: {template: {spec: {
        initContainers: [{name: init, env: [{name: INIT_ENV, value: b}, {name: NEW_VALUE, value: n}]}],
        nodeSelector: {pool: b}, tolerations: [{key: new}],
        containers: [{name: main, volumeMounts: [{name: w, mountPath: /a}]}],
        volumes: [{name: w, emptyDir: {}}]}}}}}]}}}
  - manager: acme.io/two
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [
      {name: first, template: {spec: {template: {spec: {nodeSelector: {pool: c}}}}}}]}}}
"""


def pod_of(job_set: dict, index: int) -> dict:
    return job_set["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]["spec"]


def test_jobs_keep_the_runtimes_order_so_that_depends_on_stays_valid(kit):
    assert [job["name"] for job in kit.job_set(RUNTIME, JOB)["spec"]["replicatedJobs"]] == ["first", "node"]


def test_lists_with_a_key_merge_by_it_and_others_are_replaced(kit):
    pod = pod_of(kit.job_set(RUNTIME, JOB), 0)

    assert pod["initContainers"][0]["env"] == [
        {"name": "INIT_ENV", "value": "b"},
        {"name": "NEW_VALUE", "value": "n"},
        {"name": "DATASET_PATH", "value": "p"},
    ]
    assert pod["tolerations"] == [{"key": "new"}]
    assert {volume["name"] for volume in pod["volumes"]} == {"v", "w"}
    assert pod["containers"][0]["volumeMounts"] == [{"name": "w", "mountPath": "/a", "readOnly": True}]


def test_later_patches_win_key_by_key(kit):
    assert pod_of(kit.job_set(RUNTIME, JOB), 0)["nodeSelector"] == {"pool": "c", "zone": "z"}


def test_metadata_patches_reach_jobset_job_and_pod(kit):
    job_set = kit.job_set(RUNTIME, JOB)
    node = job_set["spec"]["replicatedJobs"][1]["template"]

    assert job_set["metadata"]["labels"] == {"tier": "silver", "owner": "platform"}
    assert job_set["metadata"]["annotations"] == {"ticket": "T-1"}
    assert node["metadata"]["annotations"] == {"job": "patched"}
    assert node["spec"]["template"]["metadata"]["labels"] == {"q": "1"}


def test_metadata_of_jobs_and_pods_is_patched_whole_and_of_the_jobset_labels_and_annotations_only(kit):
    metadata = "metadata: {name: n, namespace: m, finalizers: [a.io/f], labels: {x: y}}"
    patch = f"""
  - manager: acme.io/m
    trainingRuntimeSpec: {{template: {{{metadata}, spec: {{replicatedJobs: [
      {{name: first, template: {{{metadata}, spec: {{template: {{{metadata}}}}}}}}}]}}}}}}
"""
    job_set = kit.job_set(RUNTIME, JOB + patch)
    job = job_set["spec"]["replicatedJobs"][0]["template"]
    whole = {"name": "n", "namespace": "m", "finalizers": ["a.io/f"], "labels": {"x": "y"}}

    assert (job["metadata"], job["spec"]["template"]["metadata"]) == (whole, whole)
    assert (job_set["metadata"]["name"], "finalizers" in job_set["metadata"]) == ("tj", False)
    assert job_set["metadata"]["labels"]["x"] == "y"


def test_what_is_empty_in_a_patch_takes_nothing_away(kit):
    """As in Go, whose typed objects leave it out."""
    patch = """
  - manager: acme.io/e
    trainingRuntimeSpec: {template: {metadata: {labels: {}}, spec: {replicatedJobs: [
      {name: first, template: {spec: {template: {spec: {
        tolerations: [], nodeSelector: {}, affinity: {}, volumes: [], containers: [{name: main, env: []}]}}}}}]}}}
"""
    before = pod_of(kit.job_set(RUNTIME, JOB), 0)

    assert pod_of(kit.job_set(RUNTIME, JOB + patch), 0) == before | {"affinity": {}}


def test_an_empty_value_of_a_patched_variable_leaves_the_runtimes(kit):
    patch = """
  - manager: acme.io/e
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: first, template: {spec: {template: {spec: {
      initContainers: [{name: init, env: [{name: DATASET_PATH, value: ''}, {name: MORE, value: ''}]}]}}}}}]}}}
"""
    env = pod_of(kit.job_set(RUNTIME, JOB + patch), 0)["initContainers"][0]["env"]

    assert [(entry["name"], entry.get("value")) for entry in env] == [
        ("INIT_ENV", "b"),
        ("NEW_VALUE", "n"),
        ("DATASET_PATH", "p"),
        ("MORE", None),
    ]


def test_provenance_names_the_manager(kit):
    path = "replicatedJobs[first].template.spec.template.spec.nodeSelector.pool"

    assert kit.plan(RUNTIME, JOB).provenance[path] == "patch acme.io/two"


def test_a_template_without_labels_sends_no_metadata(kit):
    """Server-side apply makes null of an empty one that had labels before, and refuses that."""
    runtime = RUNTIME.replace(
        "- name: first\n        template: {", "- name: first\n        template: {metadata: {labels: {}}, "
    )
    first = kit.job_set(runtime, JOB)["spec"]["replicatedJobs"][0]["template"]

    assert "metadata" not in first
    assert "metadata" not in first["spec"]["template"]
