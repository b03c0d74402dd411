"""Tables: columns, cells as kubectl shows them, ages, printer columns of CRDs."""

from datetime import UTC, datetime, timedelta

import pytest

from ktrain.local.apiserver.forms import table
from ktrain.local.apiserver.forms.humanize import age, duration
from ktrain.local.apiserver.forms.jsonpath import compile_path
from ktrain.local.apiserver.registry import ServedResource
from ktrain.local.apiserver.strategy import Strategy

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def resource(group, kind, **fields):
    return ServedResource(group, "v1", kind, f"{kind.lower()}s", namespaced=True, strategy=Strategy(), **fields)


def ago(**span):
    return (NOW - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells(kind, obj, group="", *, wide=False):
    """The row of an object, by column name."""
    obj = {"metadata": {"name": "a", "creationTimestamp": ago(minutes=5)}, **obj}
    document = table.render([obj], resource(group, kind), now=NOW, include="None", meta={})
    columns = document["columnDefinitions"]
    row = document["rows"][0]["cells"]
    return {c["name"]: cell for c, cell in zip(columns, row, strict=True) if wide or c["priority"] == 0}


def pod(phase="Running", statuses=(), init=(), inits=(), meta=None, **status):
    return {
        "metadata": {"name": "a", "creationTimestamp": ago(minutes=5), **(meta or {})},
        "spec": {"containers": [{"name": "c"}, {"name": "d"}][: max(len(statuses), 1)], "initContainers": list(init)},
        "status": {
            "phase": phase,
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(inits),
            **status,
        },
    }


def container(*, ready=False, restarts=0, last=None, **state):
    ended = {"lastState": {"terminated": {"finishedAt": last}}} if last else {}
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": state, **ended}


RUNNING = container(ready=True, running={})
STARTING = container(waiting={"reason": "PodInitializing"})
INITS = ({"name": "c"}, {"name": "d"})
SIDECAR = {"name": "c", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("obj", "ready", "status", "restarts"),
    [
        (pod("Pending"), "0/1", "Pending", "0"),
        (pod(statuses=[RUNNING]), "1/1", "Running", "0"),
        (pod(statuses=[container(running={})]), "0/1", "Running", "0"),
        (pod("Pending", [container(waiting={"reason": "ContainerCreating"})]), "0/1", "ContainerCreating", "0"),
        (
            pod(statuses=[container(restarts=3, last=ago(seconds=30), waiting={"reason": "CrashLoopBackOff"})]),
            "0/1",
            "CrashLoopBackOff",
            "3 (30s ago)",
        ),
        (pod("Succeeded", [container(terminated={"reason": "Completed"})]), "0/1", "Completed", "0"),
        (pod("Failed", [container(terminated={"reason": "Error", "exitCode": 1})]), "0/1", "Error", "0"),
        (pod("Failed", [container(terminated={"exitCode": 3})]), "0/1", "ExitCode:3", "0"),
        (pod("Failed", [container(terminated={"exitCode": 137, "signal": 9})]), "0/1", "Signal:9", "0"),
        (pod("Failed", reason="Evicted"), "0/1", "Evicted", "0"),
        (pod(statuses=[container(terminated={"reason": "Completed"}), RUNNING]), "1/2", "NotReady", "0"),
        (
            pod(
                statuses=[container(terminated={"reason": "Completed"}), RUNNING],
                conditions=[{"type": "Ready", "status": "True"}],
            ),
            "1/2",
            "Running",
            "0",
        ),
        (pod(statuses=[RUNNING], meta={"deletionTimestamp": ago(seconds=1)}), "1/1", "Terminating", "0"),
        (
            pod(
                "Succeeded", [container(terminated={"reason": "Completed"})], meta={"deletionTimestamp": ago(seconds=1)}
            ),
            "0/1",
            "Completed",
            "0",
        ),
        (pod(meta={"deletionTimestamp": ago(seconds=1)}, reason="NodeLost"), "0/1", "Unknown", "0"),
        (
            pod("Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            "0/1",
            "SchedulingGated",
            "0",
        ),
        (pod("Pending", [STARTING], INITS, [container(running={}), STARTING]), "0/1", "Init:0/2", "0"),
        (
            pod("Pending", [STARTING], INITS, [container(terminated={"exitCode": 0}), container(running={})]),
            "0/1",
            "Init:1/2",
            "0",
        ),
        (
            pod("Pending", [STARTING], INITS, [container(restarts=2, waiting={"reason": "CrashLoopBackOff"})]),
            "0/1",
            "Init:CrashLoopBackOff",
            "2",
        ),
        (pod("Failed", [STARTING], INITS, [container(terminated={"exitCode": 4})]), "0/1", "Init:ExitCode:4", "0"),
        (
            pod("Failed", [STARTING], INITS, [container(terminated={"exitCode": 137, "signal": 9})]),
            "0/1",
            "Init:Signal:9",
            "0",
        ),
        (
            pod("Failed", [STARTING], INITS, [container(terminated={"exitCode": 1, "reason": "Error"})]),
            "0/1",
            "Init:Error",
            "0",
        ),
        (
            pod(statuses=[RUNNING], init=[SIDECAR], inits=[{**RUNNING, "started": True, "restartCount": 1}]),
            "2/2",
            "Running",
            "1",
        ),
    ],
)
def test_pods_show_what_is_wrong_first(obj, ready, status, restarts):
    row = cells("Pod", obj)

    assert row == {"Name": "a", "Ready": ready, "Status": status, "Restarts": restarts, "Age": "5m"}


def test_wide_pod_columns():
    obj = pod(statuses=[RUNNING], podIPs=[{"ip": "10.0.0.1"}], conditions=[{"type": "x/y", "status": "True"}])
    obj["spec"] |= {"nodeName": "n", "readinessGates": [{"conditionType": "x/y"}, {"conditionType": "z"}]}
    row = cells("Pod", obj, wide=True)

    assert [row[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == [
        "10.0.0.1", "n", "<none>", "1/2",
    ]  # fmt: skip


def true(type_):
    return {"conditions": [{"type": type_, "status": "True"}]}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"completions": 3}, {"succeeded": 1, "startTime": ago(seconds=90)}, ("Running", "1/3", "90s")),
        ({"parallelism": 1}, {}, ("Running", "0/1", "")),
        ({"parallelism": 4}, {}, ("Running", "0/1 of 4", "")),
        (
            {"completions": 1},
            {**true("Complete"), "succeeded": 1, "startTime": ago(hours=2), "completionTime": ago(hours=1)},
            ("Complete", "1/1", "60m"),
        ),
        ({"completions": 1}, true("Failed"), ("Failed", "0/1", "")),
        ({"completions": 1}, true("Suspended"), ("Suspended", "0/1", "")),
        ({"completions": 1}, true("FailureTarget"), ("FailureTarget", "0/1", "")),
    ],
)
def test_jobs(spec, status, expected):
    row = cells("Job", {"spec": spec, "status": status}, "batch")

    assert (row["Status"], row["Completions"], row["Duration"]) == expected


def test_services():
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]
    row = cells("Service", {"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": ports}}, wide=True)

    assert list(row.values()) == ["a", "ClusterIP", "10.0.0.1", "<none>", "80/TCP,53:30053/UDP", "5m", "<none>"]


def test_data_is_counted():
    assert cells("ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": ""}})["Data"] == 2
    assert cells("Secret", {"type": "Opaque", "data": {}}) == {"Name": "a", "Type": "Opaque", "Data": 0, "Age": "5m"}


@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "Normal", "reason": "Made", "message": " ok\n", "count": 2, "lastTimestamp": ago(seconds=3),
            "firstTimestamp": ago(seconds=9), "involvedObject": {"kind": "Pod", "name": "p"},
            "source": {"component": "x"},
        },
        {
            "type": "Normal", "reason": "Made", "note": "ok", "eventTime": ago(seconds=9),
            "regarding": {"kind": "Pod", "name": "p"}, "reportingController": "x",
            "series": {"count": 2, "lastObservedTime": ago(seconds=3)},
        },
    ],
)  # fmt: skip
def test_events_of_both_apis(event):
    row = cells("Event", event, wide=True)

    assert row == {
        "Last Seen": "3s", "Type": "Normal", "Reason": "Made", "Object": "pod/p", "Subobject": "", "Source": "x",
        "Message": "ok", "First Seen": "9s", "Count": 2, "Name": "a",
    }  # fmt: skip


def test_nodes_and_claims():
    node = {
        "metadata": {"name": "a", "creationTimestamp": ago(days=3), "labels": {"node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
        "status": {**true("Ready"), "nodeInfo": {"kubeletVersion": "v1"}},
    }
    claim = {
        "spec": {"volumeName": "v", "storageClassName": "s"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
    }

    assert list(cells("Node", node).values()) == ["a", "Ready,SchedulingDisabled", "gpu", "3d", "v1"]
    assert list(cells("PersistentVolumeClaim", claim).values()) == [
        "a", "Bound", "v", "1Gi", "RWO,RWX", "s", "<unset>", "5m",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "kind", "names"),
    [
        ("", "Namespace", ["Name", "Status", "Age"]),
        ("coordination.k8s.io", "Lease", ["Name", "Holder", "Age"]),
        ("rbac.authorization.k8s.io", "Role", ["Name", "Created At"]),
        ("rbac.authorization.k8s.io", "RoleBinding", ["Name", "Role", "Age"]),
        ("apiextensions.k8s.io", "CustomResourceDefinition", ["Name", "Created At"]),
        ("", "ServiceAccount", ["Name", "Age"]),
    ],
)
def test_columns_of_other_kinds(group, kind, names):
    assert list(cells(kind, {}, group)) == names


# --- custom resources -------------------------------------------------------------------------------------------------

OBJ = {
    "metadata": {"name": "w", "annotations": {"a.b/c": "ann"}},
    "spec": {
        "n": 5, "f": 1.5, "b": True, "l": [1, 2], "d": "2001-01-01T00:00:00Z", "o": {"k": "v"}, "s": "7", "bad": "x",
        "c": [{"type": "A", "status": "n"}, {"type": "Ready", "status": "y", "i": 2}],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", ".spec.n", "5"),
        ("string", ".spec.b", "true"),
        ("string", ".spec.l", "[1,2]"),
        ("string", ".spec.o", '{"k":"v"}'),
        ("string", ".spec.l[*]", "1"),
        ("string", ".spec.nope.x", None),
        ("integer", ".spec.n", 5),
        ("integer", ".spec.f", 1),
        ("integer", ".spec.s", 7),
        ("integer", ".spec.bad", None),
        ("number", ".spec.f", 1.5),
        ("boolean", ".spec.b", True),
        ("boolean", ".spec.n", None),
        ("date", ".spec.d", "25y"),
        ("date", ".spec.s", "<invalid>"),
        ("string", '.spec.c[?(@.type=="Ready")].status', "y"),
        ("string", ".spec.c[?(@.i>1)].type", "Ready"),
        ("string", ".spec.c[?(@.i)].type", "Ready"),
        ("string", ".spec.c[-1:].type", "Ready"),
        ("string", ".spec.c[0].type", "A"),
        ("string", r".metadata.annotations.a\.b/c", "ann"),
        ("string", ".metadata.annotations['a.b/c']", "ann"),
        ("string", ".spec..n", "<invalid>"),
    ],
)
def test_cells_of_printer_columns(kind, path, cell):
    widgets = resource("ex.test", "Widget", custom=True, columns=({"name": "X", "type": kind, "jsonPath": path},))
    document = table.render([OBJ], widgets, now=NOW, include="None", meta={})

    assert document["rows"][0]["cells"] == ["w", cell]


@pytest.mark.parametrize("path", [".spec[", ".spec[?(@.a==)]", ".spec[?(a)]", ".spec[?(@.a==b)]"])
def test_bad_paths_are_refused(path):
    with pytest.raises(ValueError, match="cannot read the JSONPath"):
        compile_path(path)


def test_columns_describe_themselves():
    column = {"name": "X", "type": "integer", "jsonPath": ".spec.n", "priority": 1}
    document = table.render(
        [], resource("ex.test", "Widget", custom=True, columns=(column,)), now=NOW, include="", meta={}
    )

    assert document["columnDefinitions"][1] == {
        "name": "X", "type": "integer", "format": "", "priority": 1,
        "description": "Custom resource definition column (in JSONPath format): .spec.n",
    }  # fmt: skip


def test_custom_resources_without_columns_show_name_and_age():
    document = table.render([OBJ], resource("ex.test", "Widget", custom=True), now=NOW, include="None", meta={})

    assert [(c["name"], c["type"]) for c in document["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]


def test_rows_carry_what_was_asked_for():
    def row_object(include):
        return table.render([OBJ], resource("", "Foo"), now=NOW, include=include, meta={})["rows"][0]["object"]

    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": OBJ["metadata"]}
    assert row_object("Metadata") == partial
    assert row_object("Object") is OBJ
    assert row_object("None") is None


def test_a_bookmark_is_an_empty_row_with_its_version():
    document = table.bookmark(resource("", "ConfigMap"), {"metadata": {"resourceVersion": "7"}})

    assert document["metadata"] == {"resourceVersion": "7"}
    (row,) = document["rows"]
    assert row["cells"] == ["", None, None]
    assert row["object"]["metadata"]["resourceVersion"] == "7"


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span", "text"),
    [
        ({"seconds": 111}, "111s"),
        ({"seconds": 120}, "2m"),
        ({"seconds": 421}, "7m1s"),
        ({"minutes": 12, "seconds": 5}, "12m"),
        ({"hours": 3}, "3h"),
        ({"hours": 3, "minutes": 7}, "3h7m"),
        ({"hours": 9, "minutes": 7}, "9h"),
        ({"hours": 49}, "2d1h"),
        ({"days": 10, "hours": 5}, "10d"),
        ({"days": 800}, "2y70d"),
        ({"days": 365 * 9}, "9y"),
        ({"seconds": -1}, "0s"),
        ({"seconds": -2}, "<invalid>"),
    ],
)
def test_durations(span, text):
    assert duration(timedelta(**span)) == text


def test_ages():
    assert age(None, NOW) == "<unknown>"
    assert age("yesterday", NOW) == "<invalid>"
    assert age(ago(seconds=-1), NOW) == "0s"
    assert age("2026-01-01T11:59:00.5Z", NOW) == "59s"
