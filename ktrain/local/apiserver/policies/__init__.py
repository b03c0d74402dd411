"""
ValidatingAdmissionPolicies: rules in CEL that users store, bound to what they are for by bindings.

    kinds.py      the two kinds: defaults, and what makes one acceptable
    params.py     the objects that a binding hands to its policy
    policy.py     one policy against one request
    dispatch.py   all policies against one request

Source: `k8s.io/apiserver/pkg/admission/plugin/policy`.
"""

from ktrain.local.apiserver.policies.dispatch import Policies as Policies
