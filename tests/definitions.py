"""Definitions of kinds that tests make up."""

FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(resource, *, schema=FREE, others=(), names=None, conversion=None, **version):
    """
    The CustomResourceDefinition of a resource, whose version is the stored one.

    `others` are versions that are served beside it, `names` more names of the kind, `version` more of each version.
    """
    spec = {
        "group": resource.group,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower(), **(names or {})},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == resource.version,
                "schema": {"openAPIV3Schema": schema},
                **version,
            }
            for name in (resource.version, *others)
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified_name},
        "spec": spec | ({"conversion": conversion} if conversion else {}),
    }
