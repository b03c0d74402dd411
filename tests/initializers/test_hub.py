"""Repositories of the Hub, from a server that speaks as much of its API as this needs."""

import pytest

from ktrain.initializers.dataset import DATASET
from ktrain.initializers.download import Download
from ktrain.initializers.errors import AccessRefused, ConfigurationError, Damaged, Interrupted, NothingThere
from ktrain.initializers.hub import HubRepository
from ktrain.initializers.model import MODEL

from .conftest import QUICK
from .servers import COMMIT, BadLine, HubServer

LARGE = bytes(range(256)) * 4096 * 8


@pytest.fixture
def fetch(hub, tmp_path):
    """Download a repository; returns what is there, by name."""

    def run(uri="org/name", kind="dataset", *, endpoint=None, token=None, allow=(), ignore=()):
        target = tmp_path / kind
        source = HubRepository(uri, kind, token=token, endpoint=endpoint or hub.url)
        Download(source, target, allow, ignore, retry=QUICK).run()
        files = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in files.items() if not name.startswith(".ktrain/")}

    return run


@pytest.mark.parametrize(
    ("uri", "kind", "repository"),
    [
        ("org/name", "dataset", "dataset/org/name"),
        ("org/name/", "dataset", "dataset/org/name"),
        ("org/name/and/more@x.csv", "dataset", "dataset/org/name"),
        ("org/name@v1/more", "dataset", "dataset/org/name"),
        ("squad", "dataset", "dataset/squad"),
        ("org/name", "model", "model/org/name"),
        ("gpt2", "model", "model/gpt2"),
        ("org/name@v1", "model", "model/org/name"),
        ("org/name@refs%2Fpr%2F1", "model", "model/org/name"),
    ],
)
def test_a_uri_names_a_repository(hub, fetch, uri, kind, repository):
    hub.repositories[repository] = {"a.json": b"{}", "data/b c.parquet": LARGE}

    assert fetch(uri, kind) == {"a.json": b"{}", "data/b c.parquet": LARGE}


@pytest.mark.parametrize(("uri", "asked"), [("org/name@v1", "v1"), ("org/name@refs%2Fpr%2F1", "refs%2Fpr%2F1")])
def test_all_files_are_of_the_commit_that_the_revision_was(hub, fetch, uri, asked):
    hub.repositories["dataset/org/name"] = {"a": b"a", "b": b"b"}
    fetch(uri)
    first, tree, *files = [path for path, _, _ in hub.requests]

    assert first == f"/api/datasets/org/name/revision/{asked}"
    assert [path for path in (tree, *files) if COMMIT not in path] == []


@pytest.mark.parametrize(
    ("uri", "kind", "text"),
    [
        ("", "dataset", "names no dataset: expected hf://<organization>/<name>"),
        ("/", "model", "names no model"),
        ("org/name/more", "model", "hf://org/name/more is no name of a model"),
        ("or g/name", "dataset", "hf://or g/name is no name of a dataset"),
    ],
)
def test_what_names_no_repository_is_told(fetch, uri, kind, text):
    with pytest.raises(ConfigurationError, match=text):
        fetch(uri, kind)


FORMATS = ["config.json", "w.safetensors", "t.model", "merges.txt", "w.gguf", "w.bin", "w.pt", "w.h5", "README.md"]


@pytest.mark.parametrize(
    ("step", "environment", "left_out"),
    [
        (MODEL, {}, {"w.bin", "w.pt", "w.h5", "README.md"}),
        (MODEL, {"IGNORE_PATTERNS": "*.gguf, *.txt"}, {"w.gguf", "merges.txt", "w.bin", "w.pt", "w.h5", "README.md"}),
        (DATASET, {}, set()),
        (DATASET, {"IGNORE_PATTERNS": "w.*"}, {"w.safetensors", "w.gguf", "w.bin", "w.pt", "w.h5"}),
    ],
)
def test_of_a_model_known_formats_are_fetched_and_of_a_dataset_all(
    hub, tmp_path, monkeypatch, step, environment, left_out
):
    hub.repositories[f"{step.kind}/org/name"] = {name: name.encode() for name in FORMATS}
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)

    step.run({"STORAGE_URI": "hf://org/name", "TARGET_DIR": str(tmp_path), **environment})

    assert {path.name for path in tmp_path.iterdir()} - {".ktrain"} == set(FORMATS) - left_out


def test_the_token_goes_to_the_hub_and_to_no_log(hub, fetch, lines):
    hub.repositories["dataset/org/name"] = {"a": b"a"}
    fetch(token="hf_secret")

    assert {authorization for _, _, authorization in hub.requests} == {"Bearer hf_secret"}
    assert "hf_secret" not in str(lines)


def test_a_broken_off_file_is_continued_where_it_broke(hub, fetch, lines):
    hub.repositories["dataset/org/name"] = {"x": LARGE}

    with BadLine(hub.url, after=3 << 20, times=2) as line:
        assert fetch(endpoint=line.url) == {"x": LARGE}

    spans = [span for _, span in hub.files_sent()]
    assert spans[0] is None
    assert [int(span[6:-1]) > 0 for span in spans[1:]] == [True, True]
    assert len([event for event in lines if event["event"] == "download.retry"]) == 2


def test_small_files_are_proved_by_gits_hash_and_large_ones_by_sha256(hub, fetch, lines):
    hub.repositories["dataset/org/name"] = {"small": b"s", "large": LARGE}
    fetch()
    assert lines[-1]["proved"] == 2

    for name, lie in (("small", {"oid": "0" * 40}), ("large", {"lfs": {"oid": "0" * 64, "size": 1, "pointerSize": 1}})):
        hub.told = {name: lie}
        algorithm = "git-blob" if name == "small" else "sha256"
        with pytest.raises(Damaged, match=f"'{name}' is damaged: its {algorithm} is"):
            fetch()


@pytest.mark.parametrize(
    ("refused", "answer", "error", "text"),
    [
        (
            "/api/",
            (401, {}),
            AccessRefused,
            r"the dataset org/name \(401 .*private, gated or not there; set ACCESS_TOKEN",
        ),
        ("/api/", (403, {"X-Error-Message": "ask first"}), AccessRefused, r"\(403 ask first\)"),
        ("/resolve/", (403, {}), AccessRefused, r"the Hub refuses 'a' \(403"),
        ("/resolve/", (404, {}), NothingThere, "the Hub has not 'a'"),
    ],
)
def test_refusals_say_what_and_why_and_are_not_asked_for_again(hub, fetch, refused, answer, error, text):
    hub.repositories["dataset/org/name"] = {"a": b"a"}
    hub.refusals[refused] = [answer] * 9

    with pytest.raises(error, match=text):
        fetch()
    assert len(hub.refusals[refused]) == 8


def test_a_repository_that_is_not_there_is_told_by_name(fetch):
    with pytest.raises(NothingThere, match="the Hub has not the dataset org/name at v1 "):
        fetch("org/name@v1")


def test_a_busy_hub_is_asked_again_until_it_is_too_often(hub, fetch):
    hub.repositories["dataset/org/name"] = {"a": b"a"}
    hub.refusals["/resolve/"] = [(503, {}), (429, {"Retry-After": "0"})]
    assert fetch() == {"a": b"a"}

    hub.repositories["dataset/org/name"] = {"a": b"b"}
    hub.refusals["/resolve/"] = [(500, {})] * 9
    with pytest.raises(Interrupted, match="the Hub cannot send 'a' now"):
        fetch()
    assert len(hub.refusals["/resolve/"]) == 9 - QUICK.attempts


def test_a_hub_that_does_not_listen_is_told(fetch):
    with pytest.raises(Interrupted, match="the Hub did not answer about the dataset org/name"):
        fetch(endpoint="http://127.0.0.1:1")


def test_storage_elsewhere_gets_the_range_and_not_the_token(hub, fetch):
    hub.repositories["dataset/org/name"] = {"x": LARGE}
    with HubServer() as storage:
        storage.repositories = hub.repositories
        place = f"/datasets/org/name/resolve/{COMMIT}/x"
        hub.refusals["/resolve/"] = [(302, {"Location": storage.url + place})] * 9
        with BadLine(storage.url, after=3 << 20, times=1) as line:
            hub.refusals["/resolve/"][0] = (302, {"Location": line.url + place})
            assert fetch(token="hf_secret") == {"x": LARGE}

        spans = [span for _, span, _ in storage.requests]
        assert spans[0] is None
        assert spans[1].startswith("bytes=")
        assert {authorization for _, _, authorization in storage.requests} == {None}


def test_an_environment_that_forbids_the_hub_is_to_be_mended(fetch, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigurationError, match="the dataset org/name cannot be fetched: HF_HUB_OFFLINE"):
        fetch()
