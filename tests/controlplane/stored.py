"""What tests of the kinds that are only stored send: small objects of each, and where they go."""

CONTAINER = {"name": "c", "image": "i"}
SELECTOR = {"matchLabels": {"a": "b"}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
JOB_SPEC = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}

APPS = "/apis/apps/v1/namespaces/{ns}"
NETWORK = "/apis/networking.k8s.io/v1/namespaces/{ns}"
DEPLOYMENTS = f"{APPS}/deployments"
STATEFUL_SETS = f"{APPS}/statefulsets"
DAEMON_SETS = f"{APPS}/daemonsets"
CRON_JOBS = "/apis/batch/v1/namespaces/{ns}/cronjobs"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"
POLICIES = f"{NETWORK}/networkpolicies"
INGRESSES = f"{NETWORK}/ingresses"
BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
QUOTAS = "/api/v1/namespaces/{ns}/resourcequotas"


def named(name="x", **fields):
    """Return an object with this name."""
    return {"metadata": {"name": name}, **fields}


def selected(**spec):
    """Return the spec of a kind that runs pods."""
    return {"selector": SELECTOR, "template": TEMPLATE, **spec}


def scaled(**spec):
    """Return the spec of an autoscaler."""
    return {"maxReplicas": 3, "scaleTargetRef": TARGET, **spec}
