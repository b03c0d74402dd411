"""What the log of an API server says about who leads."""

LEASES = "leases"
UNLED = {"events", "secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
"""What each replica may write: its own events, and the certificate that all of them serve."""
REVIEWS = {"tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews"}
POD = "authentication.kubernetes.io/pod-name"


def unled(events, namespace):
    """
    Return the writes of operators that did not lead then, as (time, verb, resource, name, pod, leader).

    Args:
        events: Of the audit log, by the time of the answer.
        namespace: That of the operators.
    """
    leader, found = "", []
    for event in events:
        user, resource = event["user"], event.get("objectRef", {}).get("resource", "")
        (pod,) = user.get("extra", {}).get(POD, [""])
        if not user["username"].startswith(f"system:serviceaccount:{namespace}:") or resource in REVIEWS:
            continue
        if resource == LEASES:
            if event["responseStatus"]["code"] < 300:
                leader = event["requestObject"]["spec"]["holderIdentity"]
        elif resource not in UNLED and not (pod and pod in leader):
            name = event["objectRef"].get("name", "")
            found.append((event["stageTimestamp"], event["verb"], resource, name, pod, leader))
    return found
