from pathlib import PurePath

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.kubelet.environment import (
    ConfigError,
    PodFacts,
    Sources,
    base_environment,
    command_line,
    container_variables,
    expand,
    field_value,
    process_environment,
    referenced,
    service_variables,
    visible_devices,
)
from ktrain.local.kubelet.service_address import ServiceAddress
from ktrain.local.kubelet.spec import ConfigMap, Container, Pod, Secret
from ktrain.local.sandbox.executor import StartError

FACTS = PodFacts("laptop", "10.88.0.1", "10.88.1.5", {"cpu": "8", "memory": "16Gi"})
SOURCES = Sources(
    {"settings": ConfigMap(data={"A": "from-map", "B": "$(A)"})}, {"token": Secret(data={"KEY": b"secret"})}
)
POD = msgspec.convert(
    {
        "metadata": {
            "name": "p",
            "namespace": "team",
            "uid": "u-1",
            "labels": {"app": 'say "hi"', "tier": "x"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
        },
        "spec": {"containers": [{"name": "main"}], "subdomain": "job", "hostname": "job-0"},
    },
    Pod,
)


def container(**fields: object) -> Container:
    return msgspec.convert({"name": "main", **fields}, Container)


def variables(*env: object, sources: Sources = SOURCES, **fields: object) -> dict[str, str]:
    return container_variables(POD, container(env=list(env), **fields), FACTS, sources)


def value(name: str, text: str) -> dict[str, object]:
    return {"name": name, "value": text}


def from_(name: str, **source: object) -> dict[str, object]:
    return {"name": name, "valueFrom": source}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(A)$$", "1$"),
    ],
)
def test_expansion_follows_the_kubelets_rules(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text())
def test_doubling_every_dollar_quotes_any_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"": "x", "A": "1"}) == text


def test_a_variable_sees_only_what_came_before_it() -> None:
    found = variables(value("EARLY", "$(LATE)"), value("LATE", "1"), value("SUM", "$(EARLY)/$(LATE)"))

    assert found == {"EARLY": "$(LATE)", "LATE": "1", "SUM": "$(LATE)/1"}


def test_env_overrides_env_from_and_later_entries_override_earlier_ones() -> None:
    imported = [{"prefix": "P_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "token"}}]
    found = variables(value("P_A", "mine"), value("X", "1"), value("X", "$(X)2"), envFrom=imported)

    assert found == {"P_A": "mine", "P_B": "$(A)", "KEY": "secret", "X": "12"}


def test_values_from_elsewhere_are_not_expanded() -> None:
    found = variables(value("A", "1"), from_("B", configMapKeyRef={"name": "settings", "key": "B"}))

    assert found["B"] == "$(A)"


def test_an_optional_reference_that_leads_nowhere_sets_nothing() -> None:
    found = variables(
        from_("A", configMapKeyRef={"name": "none", "key": "k", "optional": True}),
        from_("B", secretKeyRef={"name": "token", "key": "none", "optional": True}),
        envFrom=[{"configMapRef": {"name": "none", "optional": True}}],
    )

    assert found == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env": [from_("A", configMapKeyRef={"name": "none", "key": "k"})]}, "configmap 'none' not found"),
        (
            {"env": [from_("A", secretKeyRef={"name": "token", "key": "k"})]},
            "couldn't find key 'k' in secret team/token",
        ),
        ({"envFrom": [{"secretRef": {"name": "none"}}]}, "secret 'none' not found"),
        ({"env": [from_("A", fieldRef={"fieldPath": "spec.image"})]}, "spec.image"),
        ({"env": [from_("A", resourceFieldRef={"resource": "cpu"})]}, "limits.NAME"),
    ],
)
def test_a_reference_that_must_exist_is_named_when_it_does_not(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        container_variables(POD, container(**fields), FACTS, SOURCES)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.uid", "u-1"),
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", "3"),
        ("metadata.labels['none']", ""),
        ("metadata.labels", 'app="say \\"hi\\""\ntier="x"'),
        ("spec.nodeName", "laptop"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "10.88.1.5"),
        ("status.hostIP", "10.88.0.1"),
    ],
)
def test_fields_of_the_pod_can_be_read(path: str, expected: str) -> None:
    assert field_value(path, POD, FACTS) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.memory", "divisor": "1Mi"}, "101"),
        ({"resource": "limits.memory", "divisor": "1Gi"}, "16"),
        ({"resource": "requests.cpu"}, "0"),
    ],
)
def test_resources_are_rounded_up_and_limits_default_to_the_node(selector: dict[str, str], expected: str) -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "105000000"}}

    assert variables(from_("R", resourceFieldRef=selector), resources=resources) == {"R": expected}


def test_command_and_args_are_expanded_with_the_final_variables() -> None:
    argv = command_line(container(command=["run", "$(A)"], args=["$$(A)", "$(B)"]), {"A": "1"})

    assert argv == ["run", "1", "$(A)", "$(B)"]


def test_a_container_that_relies_on_its_image_is_refused_by_name() -> None:
    with pytest.raises(StartError, match="'main' has neither command nor args; images are not run") as caught:
        command_line(container(image="pytorch:2"), {})

    assert caught.value.exit_code == 128


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("ghcr.io/kubeflow/trainer/dataset-initializer:v2.3.0", "dataset"),
        ("docker.io/kubeflow/model-initializer", "model"),
        ("host:5000/model-initializer@sha256:0", "model"),
    ],
)
def test_an_initializers_image_stands_for_ktrains_program(image: str, kind: str) -> None:
    program = ["python", "-m", f"ktrain.initializers.{kind}"]

    assert command_line(container(image=image), {}) == ["env", f"TARGET_DIR=/workspace/{kind}", *program]
    assert command_line(container(image=image), {"TARGET_DIR": "/data"}) == program
    assert command_line(container(image=image, command=["own"]), {}) == ["own"]


def test_only_what_programs_need_is_inherited() -> None:
    outer = {"PATH": "/usr/bin:/venv/bin:/bin", "HOME": "/home/me", "LC_ALL": "C", "VIRTUAL_ENV": "/venv"}
    hostile = {
        "RANK": "1",
        "PET_NNODES": "2",
        "KUBECONFIG": "k",
        "OMPI_X": "1",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS": "x",
    }
    found = base_environment(outer | hostile, PurePath("/venv/bin/python"))

    assert found == outer | {"PATH": "/venv/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


def test_the_authors_variables_win_over_inherited_ones() -> None:
    base = {"PATH": "/bin", "PYTHONUNBUFFERED": "1"}
    found = process_environment(base, POD, {"PATH": "/mine"}, None)

    assert found == {"PATH": "/mine", "PYTHONUNBUFFERED": "1", "HOSTNAME": "job-0"}


def test_traffic_between_pods_stays_off_an_inherited_proxy() -> None:
    found = process_environment({"https_proxy": "http://p:1", "no_proxy": "corp"}, POD, {}, None)

    assert found["no_proxy"].startswith("corp,localhost,")
    assert {".job", "job-0", "10.88.0.0/16", ".svc"} <= set(found["NO_PROXY"].split(","))


@pytest.mark.parametrize(
    ("gpus", "wanted", "expected"),
    [
        (["4", "7"], None, "4,7"),
        ([], None, ""),
        (["4", "7"], "1", "7"),
        (["4", "7"], "0,1", "4,7"),
        (["4", "7"], "5", "5"),
        ([], "0", "0"),
        (["4"], "", ""),
        (["GPU-a"], "GPU-a", "GPU-a"),
    ],
)
def test_visible_devices_compose_with_the_authors_choice(gpus: list[str], wanted: str | None, expected: str) -> None:
    assert visible_devices(gpus, wanted) == expected


def test_devices_are_set_only_on_a_machine_that_has_some() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in process_environment({}, POD, {}, None)
    assert process_environment({}, POD, {}, [])["CUDA_VISIBLE_DEVICES"] == ""


def test_every_object_that_variables_refer_to_is_found() -> None:
    found = referenced(
        [
            container(envFrom=[{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]),
            container(env=[from_("X", configMapKeyRef={"name": "c"}), from_("Y", secretKeyRef={"name": "d"})]),
        ]
    )

    assert found == ({"a", "c"}, {"b", "d"})


@pytest.mark.parametrize(("host_network", "host", "port"), [(False, "10.88.0.1", "10443"), (True, "127.0.0.1", "4711")])
def test_a_services_variables_lead_to_it_on_either_network(host_network, host, port):
    services = {"status-server": ServiceAddress(pods=("10.88.0.1", 10443), machine=("127.0.0.1", 4711))}

    assert service_variables(services, host_network=host_network) == {
        "STATUS_SERVER_SERVICE_HOST": host,
        "STATUS_SERVER_SERVICE_PORT": port,
        "STATUS_SERVER_SERVICE_PORT_HTTPS": port,
    }
