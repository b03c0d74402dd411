"""What the test kit gives on both control planes: anyone's CRDs, and users."""

import pytest

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Resource
from ktrain.framework import Client
from ktrain.framework.errors import Forbidden

from ..definitions import definition

CONTRAPTIONS = Resource("kit.example.com", "v1", "Contraption", "contraptions", namespaced=True, type=dict)


@pytest.mark.crds(definition(CONTRAPTIONS))
async def test_definitions_of_a_marker_are_served(control_plane):
    client = control_plane.client()
    meta = {"name": "g", "namespace": control_plane.namespace}

    made = await client.create(
        CONTRAPTIONS, {"apiVersion": "kit.example.com/v1", "kind": "Contraption", "metadata": meta}
    )

    assert made["metadata"]["uid"]


async def test_definitions_can_be_installed_and_changed_in_a_test(control_plane):
    await control_plane.install_crds(definition(CONTRAPTIONS))
    await control_plane.install_crds(definition(CONTRAPTIONS, others=("v2",)))

    await control_plane.client().raw("GET", "/apis/kit.example.com/v2/contraptions")


async def test_a_user_may_do_what_was_granted(control_plane):
    admin, namespace = control_plane.client(), control_plane.namespace
    rbac = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", namespaced=True, type=dict)
    bindings = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", namespaced=True, type=dict)
    api = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader", "namespace": namespace}}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    await admin.create(rbac, {**api, "kind": "Role", "rules": [rule]})
    subject = {"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    await admin.create(bindings, {**api, "kind": "RoleBinding", "subjects": [subject], "roleRef": role})

    reader = await control_plane.add_user("jane", "readers", "others")
    await Client(reader, control_plane.env, field_manager="jane").list(CONFIG_MAPS, namespace)

    stranger = await control_plane.add_user("joe", "others")
    with pytest.raises(Forbidden, match='"joe"'):
        await Client(stranger, control_plane.env, field_manager="joe").list(CONFIG_MAPS, namespace)
