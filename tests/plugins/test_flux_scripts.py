"""The scripts of Flux, run with a `flux` that notes what it is asked. The real one is not here."""

import os
import shutil
import subprocess

import pytest

from ktrain.plugins.flux.scripts import word

from .test_flux import FULL, job, runtime, script

NOTING = """#!/bin/bash
[[ $1 == R ]] && { echo R "${@:2}"; exit; }
printf '%s\\n' "$@" >> "$NOTES"
echo --- >> "$NOTES"
left=$(( $(cat "$FAILURES") - 1 ))
echo $left > "$FAILURES"
(( left < 0 )) || exit 7
"""

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")


class Pod:
    """A pod's file system in a directory, with the view that the installer copies."""

    def __init__(self, root, host):
        self.root = root
        self.env = os.environ | {"NOTES": str(root / "notes"), "FAILURES": str(root / "failures"), "LR": "1 2"}
        (root / "bin").mkdir()
        self.program("bin/hostname", f"#!/bin/sh\necho {host}\n")
        self.program("bin/sleep", '#!/bin/sh\necho "slept $1" >> "$NOTES"\n')
        self.program("views/abc/bin/flux", NOTING)
        self.program("views/abc/bin/python3.11", "#!/bin/sh\n")
        self.program("software/gcc/x", "")
        (root / "curve").mkdir()
        (root / "curve/curve.cert").write_text("key")
        self.env["PATH"] = f"{root}/bin:{self.env['PATH']}"

    def program(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run(self, text, *arguments, failures=0):
        (self.root / "failures").write_text(str(failures))
        for path, place in {
            "/opt/views/._view": "views",
            "/opt/software": "software",
            "/mnt/flux": "flux",
            "/curve/": "curve/",
            "/tmp/fluxout": "out",
        }.items():
            text = text.replace(f" {path}", f" {self.root}/{place}").replace(f"={path}", f"={self.root}/{place}")
            text = text.replace(f"({path}", f"({self.root}/{place}")
        command = ["bash", "-c", text, "script", *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)

    def notes(self):
        return (self.root / "notes").read_text()


@pytest.fixture
def scripts(kit):
    command = 'command: [run, "a  b", "$(LR)", "$(NONE)", "$$(LR)", "it\'s", "*"]'
    return kit.objects_of(runtime(), job(FULL.replace('args: [x, "y z"]', command)))


@pytest.fixture
def pod_of(tmp_path, scripts):
    def make(host):
        pod = Pod(tmp_path, host)
        installed = pod.run(script(scripts, "init.sh"))
        assert installed.returncode == 0, installed.stderr
        return pod

    return make


@pytest.mark.parametrize("name", ["init.sh", "entrypoint.sh"])
def test_a_script_is_one_to_the_shell(scripts, name):
    checked = subprocess.run(["bash", "-n"], input=script(scripts, name), text=True, capture_output=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_installer_brings_view_software_hosts_and_configuration_and_may_run_again(pod_of, scripts):
    pod = pod_of("fj-node-0-0")
    again = pod.run(script(scripts, "init.sh"))

    assert again.returncode == 0
    flux = pod.root / "flux"
    assert (flux / "view/bin/flux").exists()
    assert not (flux / "view/abc").exists()
    assert (flux / "software/gcc/x").exists()
    assert (flux / "config/etc/flux/system/hostlist").read_text() == "fj-node-0-[0-3]\n"
    assert "[bootstrap]" in (flux / "config/etc/flux/config/broker.toml").read_text()
    assert (flux / "flux-operator-done.txt").exists()


def test_an_image_without_a_view_is_said_to_be_none(tmp_path, scripts):
    pod = Pod(tmp_path, "fj-node-0-0")
    shutil.rmtree(tmp_path / "views")
    installed = pod.run(script(scripts, "init.sh"))

    assert installed.returncode == 1
    assert "is this image a Flux view (FLUX_VIEW_IMAGE)?" in installed.stderr


def test_the_first_host_has_flux_run_the_program_word_by_word(pod_of, scripts):
    pod = pod_of("fj-node-0-0")
    ended = pod.run(script(scripts), "as one text", "tmplarg")

    assert ended.returncode == 0, ended.stderr
    words = pod.notes().splitlines()
    assert words[0] == "start"
    assert f"--config-path={pod.root}/flux/config/etc/flux/config" in words
    assert "-Stbon.fanout=256" in words
    assert words[words.index("flux") :] == [
        *("flux", "run", "-N", "4", "-n", "8", "-g", "1"),
        *("run", "a  b", "1 2", "$(NONE)", "$(LR)", "it's", "*", "tmplarg", "---"),
    ]
    flux = pod.root / "flux"
    assert (flux / "config/etc/flux/system/R").read_text() == ("R encode --hosts=fj-node-0-[0-3] --cores=0-1 --gpu=0\n")
    assert (flux / "config/etc/curve/curve.cert").stat().st_mode & 0o077 == 0
    assert (flux / "view/bin/python3").exists()
    assert (flux / "flux-operator-complete.txt").exists()


def test_the_pod_ends_as_the_program_did(pod_of, scripts):
    pod = pod_of("fj-node-0-0")

    assert pod.run(script(scripts), "", failures=1).returncode == 7
    assert (pod.root / "flux/flux-operator-complete.txt").exists()


def test_without_a_program_the_first_host_waits_for_people(pod_of, kit):
    text = script(kit.objects_of(runtime(), job("numNodes: 4, command: []")))
    pod = pod_of("fj-node-0-0")

    assert pod.run(text, "").returncode == 0
    assert pod.notes().startswith("broker\n--config-path=")
    assert "run" not in pod.notes().splitlines()


def test_another_host_tries_until_the_first_has_let_it_go(pod_of, scripts):
    pod = pod_of("fj-node-0-3")
    ended = pod.run(script(scripts), "", failures=2)

    assert ended.returncode == 0
    assert pod.notes().count("start\n") == 3
    assert pod.notes().count("slept 15\n") == 2
    assert "flux\nrun" not in pod.notes()


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "''"),
        ("plain", "plain"),
        ("$(A)b", '"${A-\\$(A)}"b'),
        ("$$(A)", "'$''(A)'"),
        ("$HOME `x`", "'$HOME `x`'"),
    ],
)
def test_a_word_reaches_the_program_as_a_kubelet_would_pass_it(text, quoted):
    assert word(text) == quoted
