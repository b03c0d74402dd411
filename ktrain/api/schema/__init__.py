"""
Structural schemas, compiled once: what a kind's objects look like, and everything the API server derives from that.

    schema = Schema.from_crd(version["schema"]["openAPIV3Schema"])    # a custom resource's version
    schema = builtin("batch/v1", "Job")                               # a built-in kind; None if it is not one

    schema.prune(obj, keep_nulls=False) -> (obj, ["spec.unknown", ...])   # unknown fields cut, their paths sorted
    schema.default(obj) -> obj                                            # missing fields filled in, top down
    schema.validate(obj, old=None, warnings=None) -> list[Cause]          # keywords, uniqueness, CEL rules, ratcheting
    schema.validate_status(obj, old=None, warnings=None) -> list[Cause]   # only obj["status"], for writes to /status
    schema.validate_shape(obj) -> list[Cause]                             # keywords only
    schema.root -> Node                                                   # for server-side apply and strategic merge

    node.child(key) -> Node | None        # of a property or, in a map, of any key; None: not in the schema
    node.items -> Node | None             # of list items
    node.type                             # object, array, string, integer, number, boolean, int-or-string; "": any;
                                          # of built-in kinds quantity, too
    node.list_type, node.map_keys         # "atomic" | "set" | "map"; the keys of a "map", in the schema's order
    node.map_type                         # "granular" | "atomic"
    node.key_defaults                     # {key: default} of the map keys that have one ({"protocol": "TCP"})
    node.patch_merge_key                  # "" if the list has none
    node.patch_strategies                 # of "merge", "replace", "retainKeys"
    node.properties, node.additional, node.preserve_unknown, node.required, node.nullable

    structural_causes(schema, path) -> list[Cause]     # is a CRD's own schema structural, do its rules compile

No function changes its input; results share every unchanged part with it. The order of work on a request is: prune,
default, admission (then default again), validate.

Schemas are compiled to `Node`s because the same schema is walked on every request: dictionary lookups of keywords that
are nearly always absent would cost more than the work. References between built-in definitions become shared nodes.

Source of the rules: structural schemas (`apiextensions.k8s.io/v1`), CEL rules (KEP-2876), ratcheting (KEP-4008).
"""

from .builtin import BuiltinKind as BuiltinKind
from .builtin import builtin_kinds as builtin_kinds
from .builtin import builtin_node as builtin_node
from .builtin import definition as definition
from .builtin import descriptions as descriptions
from .builtin import empty_object as empty_object
from .builtin import kubernetes_version as kubernetes_version
from .causes import Cause as Cause
from .node import Node as Node
from .schema import Schema as Schema
from .schema import builtin as builtin
from .structural import structural_causes as structural_causes
