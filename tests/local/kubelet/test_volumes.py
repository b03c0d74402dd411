import msgspec
import pytest

from ktrain.api.meta import Json
from ktrain.local.kubelet.environment import ConfigError, PodFacts, Sources
from ktrain.local.kubelet.files import File, VolumeError
from ktrain.local.kubelet.spec import ConfigMap, Pod, Secret
from ktrain.local.kubelet.volume_spec import Volume
from ktrain.local.kubelet.volumes import payload, referenced

FACTS = PodFacts("n", "10.0.0.1", "10.0.0.2", {"cpu": "4"})
SOURCES = Sources(
    {"m": ConfigMap(data={"a": "1", "b": "2"}, binary_data={"c": b"\xff"})}, {"s": Secret(data={"key": b"k"})}
)
POD = msgspec.convert(
    {"metadata": {"name": "p", "labels": {"x": "1"}}, "spec": {"containers": [{"name": "main"}]}}, Pod
)


def files(**source: Json) -> dict[str, File] | None:
    return payload(msgspec.convert({"name": "v", **source}, Volume), POD, FACTS, SOURCES)


def test_a_config_map_is_one_file_per_key_text_and_binary() -> None:
    expected = {"a": File(b"1", 0o644), "b": File(b"2", 0o644), "c": File(b"\xff", 0o644)}

    assert files(configMap={"name": "m"}) == expected


def test_items_select_rename_and_set_modes() -> None:
    items = [{"key": "a", "path": "dir/x", "mode": 0o400}, {"key": "b", "path": "y"}]

    found = files(configMap={"name": "m", "items": items, "defaultMode": 0o600})

    assert found == {"dir/x": File(b"1", 0o400), "y": File(b"2", 0o600)}


def test_a_projected_volume_of_no_sources_is_empty() -> None:
    assert files(projected={"sources": None}) == {}


def test_projected_sources_share_a_directory_and_a_mode() -> None:
    sources = [
        {"configMap": {"name": "m", "items": [{"key": "a", "path": "a"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]

    found = files(projected={"sources": sources, "defaultMode": 0o440})

    assert found == {"a": File(b"1", 0o440), "key": File(b"k", 0o440), "labels": File(b'x="1"', 0o440)}


def test_the_downward_api_reads_resources_of_a_named_container() -> None:
    item = {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}, "mode": 0o600}

    assert files(downwardAPI={"items": [item]}) == {"cpu": File(b"4", 0o600)}


def test_optional_sources_and_keys_may_be_missing() -> None:
    assert files(configMap={"name": "none", "optional": True}) == {}
    assert files(secret={"secretName": "s", "items": [{"key": "none", "path": "x"}], "optional": True}) == {}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "none"}}, "configmap 'none' not found"),
        ({"secret": {"secretName": "s", "items": [{"key": "z", "path": "z"}]}}, "secret 's' has no key 'z'"),
        ({"configMap": {"name": "m", "items": [{"key": "a", "path": "../a"}]}}, "must be relative"),
        ({"configMap": {"name": "m", "items": [{"key": "a", "path": "/a"}]}}, "must be relative"),
        ({"projected": {"sources": [{}]}}, "are not supported here"),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "../token"}}]}}, "must be relative"),
        ({"downwardAPI": {"items": [{"path": "x"}]}}, "neither fieldRef nor resourceFieldRef"),
        ({"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "spec.x"}}]}}, "spec.x"),
    ],
)
def test_what_is_missing_or_wrong_is_said(source: Json, message: str) -> None:
    with pytest.raises((VolumeError, ConfigError), match=message):
        files(**source)


def test_other_kinds_have_no_files_of_their_own() -> None:
    assert files(emptyDir={}) is None
    assert files(hostPath={"path": "/"}) is None


def test_every_object_that_volumes_show_is_found() -> None:
    volumes = msgspec.convert(
        [
            {"name": "1", "configMap": {"name": "a"}},
            {"name": "2", "secret": {"secretName": "b"}},
            {"name": "3", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "d"}}]}},
            {"name": "4", "emptyDir": {}},
        ],
        list[Volume],
    )

    assert referenced(volumes) == ({"a", "c"}, {"b", "d"})
