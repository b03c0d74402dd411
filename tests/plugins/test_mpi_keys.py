"""The key pair of an MPI job."""

import base64
import random
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ktrain.api.core import SECRETS
from ktrain.api.meta import Key, Object, ObjectMeta, OwnerReference
from ktrain.framework.env import Env
from ktrain.plugins.mpi.keys import ORDER, KeyPair

from .test_mpi import job, runtime


def keys(kit):
    data = kit.objects_of(runtime(), job(""))["Secret"]["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


def test_the_order_is_that_of_the_curve():
    """A generator of order n has (n - 1) G = -G: the same point but for the sign of y."""
    first, last = (
        ec.derive_private_key(number, ec.SECP521R1()).public_key().public_numbers() for number in (1, ORDER - 1)
    )

    assert first.x == last.x
    assert first.y != last.y


def test_both_halves_belong_together_and_are_of_the_kinds_that_ssh_reads(kit):
    found = keys(kit)
    private = serialization.load_pem_private_key(found["ssh-privatekey"], None)

    assert found["ssh-privatekey"].startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert private.curve.name == "secp521r1"
    assert found["ssh-publickey"].startswith(b"ecdsa-sha2-nistp521 ")
    assert found["ssh-publickey"].endswith(b"\n")
    public = serialization.load_ssh_public_key(found["ssh-publickey"])
    assert public.public_numbers() == private.public_key().public_numbers()


SOURCES = {"production": Env().random, "simulation": random.Random(7)}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_both_halves_are_word_by_word_what_the_cryptography_library_writes(source):
    pair = KeyPair.draw(source)
    key = serialization.load_pem_private_key(pair.private, None)
    form, none = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()

    assert pair.private == key.private_bytes(serialization.Encoding.PEM, form, none)
    of_ssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    assert pair.public == key.public_key().public_bytes(*of_ssh) + b"\n"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen is installed")
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_ssh_reads_the_private_half(source, tmp_path):
    pair = KeyPair.draw(source)
    file = tmp_path / "id_rsa"
    file.write_bytes(pair.private)
    file.chmod(0o600)
    said = subprocess.run(["ssh-keygen", "-y", "-f", file], capture_output=True, check=True).stdout

    assert said.split()[:2] == pair.public.split()[:2]


def test_a_simulation_draws_the_same_keys_again_and_production_never(kit):
    assert KeyPair.draw(random.Random(7)) == KeyPair.draw(random.Random(7)) != KeyPair.draw(random.Random(8))
    assert isinstance(Env().random, random.SystemRandom)
    assert KeyPair.draw(Env().random) != KeyPair.draw(Env().random)


@pytest.mark.parametrize(("owner", "drawn"), [("u", False), ("somebody else", True)])
def test_a_job_that_has_keys_gets_no_others(kit, owner, drawn):
    """Keys that are another's are left to the reconciler, which says so."""
    owners = (OwnerReference("v", "TrainJob", "mj", owner, controller=True),)
    meta = ObjectMeta(name="mj-mpi-ssh-auth", namespace="team", owner_references=owners)
    kit.objects[SECRETS.plural, Key("team", "mj-mpi-ssh-auth")] = Object(metadata=meta)

    assert ("Secret" in kit.objects_of(runtime(), job(""))) is drawn


def test_secrets_are_not_shown():
    assert "PRIVATE" not in repr(KeyPair.draw(random.Random(1)))
