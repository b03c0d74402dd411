"""Values that are wrong are refused with their path; those of Kubeflow Trainer's chart mean what they mean there."""

import pytest
import yaml

from .programs import CHART, NAMESPACE, RELEASE, VALUES, of_kind, template

UPSTREAM = "kubeflow/trainer/trainer-controller-manager"
WRONG = [
    # Types
    ({"manager": {"replicas": "two"}}, "at '/manager/replicas': got string, want integer"),
    ({"manager": {"replicas": -1}}, "at '/manager/replicas'"),
    ({"manager": {"env": {"A": "b"}}}, "at '/manager/env'"),
    ({"manager": {"args": "--zap-devel"}}, "at '/manager/args'"),
    ({"commonLabels": {"a": 1}}, "at '/commonLabels/a': got number, want string"),
    ({"webhook": {"enabled": "yes"}}, "at '/webhook/enabled': got string, want boolean"),
    ({"watchNamespaces": "team-a"}, "at '/watchNamespaces': got string, want array"),
    ({"watchNamespaces": ["Team_A"]}, "at '/watchNamespaces/0'"),
    ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces'"),
    ({"manager": {"config": {"webhook": {"port": "https"}}}}, "at '/manager/config/webhook/port'"),
    ({"manager": {"config": {"featureGates": {"TrainJobStatus": "on"}}}}, "at '/manager/config/featureGates"),
    ({"manager": {"config": {"snapshots": "none"}}}, "at '/manager/config/snapshots'"),
    # Choices
    ({"jobset": {"mode": "internal"}}, "at '/jobset/mode'"),
    ({"webhook": {"failurePolicy": "Retry"}}, "at '/webhook/failurePolicy'"),
    ({"webhook": {"timeoutSeconds": 31}}, "at '/webhook/timeoutSeconds'"),
    ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy'"),
    ({"image": {"digest": "sha256:abc"}}, "at '/image/digest'"),
    ({"certManager": {"enabled": True, "duration": "90 days"}}, "at '/certManager/duration'"),
    ({"certManager": {"issuerRef": {"kind": "ClusterIssuer"}}}, "at '/certManager/issuerRef'"),
    ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "at '/podDisruptionBudget/maxUnavailable'"),
    ({"runtimes": {"hooks": "always"}}, "at '/runtimes/hooks'"),
    # Unknown keys
    ({"replicas": 2}, "at '': additional properties 'replicas' not allowed"),
    ({"manager": {"replica": 2}}, "at '/manager': additional properties 'replica' not allowed"),
    ({"manager": {"config": {"webhok": {}}}}, "at '/manager/config': additional properties 'webhok' not allowed"),
    ({"manager": {"config": {"leaderElection": {"lease": "1s"}}}}, "at '/manager/config/leaderElection'"),
    (
        {"manager": {"config": {"controller": {"groupKindConcurrency": {"Pod": 1}}}}},
        "Concurrency': additional properties 'Pod'",
    ),
    ({"jobset": {"controller": {"replicas": 2}}}, "at '/jobset': additional properties 'controller' not allowed"),
    ({"runtimes": {"tensorflow": {"enabled": True}}}, "at '/runtimes': additional properties 'tensorflow'"),
    ({"dataCache": {"size": 1}}, "at '/dataCache': additional properties 'size' not allowed"),
    # Contradictions
    ({"manager": {"config": {"webhook": {"port": 8080}}}}, "port 8080 is that of"),
    ({"manager": {"config": {"health": {"healthProbeBindAddress": "127.0.0.1:8081"}}}}, "is loopback"),
    (
        {"manager": {"replicas": 2, "config": {"leaderElection": {"leaderElect": False}}}},
        "manager.replicas: 2 replicas need",
    ),
    (
        {"manager": {"config": {"webhook": {"enable": False}}}},
        "manager.config.webhook.enable: it contradicts webhook.enabled",
    ),
    (
        {"manager": {"config": {"jobset": {"enable": False}}}},
        "manager.config.jobset.enable: it contradicts jobset.mode",
    ),
    ({"jobset": {"mode": "builtin", "install": False}}, "jobset.mode: builtin contradicts jobset.install"),
    ({"watchNamespaces": ["a"]}, "watchNamespaces: certificates that the operator makes need rights"),
    (
        {
            "watchNamespaces": ["a"],
            "certManager": {"enabled": True},
            "manager": {"config": {"featureGates": {"AllAlpha": True}}},
        },
        "watchNamespaces: the status server",
    ),
    (
        {
            "watchNamespaces": ["a"],
            "webhook": {"enabled": False},
            "manager": {"config": {"metrics": {"secureServing": True, "authorize": True}}},
        },
        "watchNamespaces: manager.config.metrics.authorize",
    ),
    (
        {"manager": {"config": {"certManagement": {"enable": False}}}},
        "manager.config.certManagement.enable: false needs",
    ),
    ({"webhook": {"caBundle": "QQ=="}}, "webhook.caBundle: the maker of the certificate writes its CA"),
    ({"webhook": {"enabled": False}, "certManager": {"enabled": True}}, "certManager.enabled: neither webhooks nor"),
    (
        {"webhook": {"enabled": False}, "manager": {"config": {"featureGates": {"TrainJobStatus": True}}}},
        "manager.config.featureGates.TrainJobStatus: without webhooks the status server needs a certificate",
    ),
    (
        {"manager": {"config": {"metrics": {"bindAddress": "0"}}}, "monitoring": {"serviceMonitor": {"enabled": True}}},
        "monitoring: manager.config.metrics.bindAddress switches metrics off",
    ),
    (
        {"monitoring": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}},
        "monitoring.podMonitor.enabled: with monitoring.serviceMonitor.enabled every pod would be scraped twice",
    ),
    # What Kubeflow Trainer's chart has and ktrain has not
    ({"dataCache": {"enabled": True}}, "dataCache: ktrain has no data cache"),
    (
        {"dataCache": {"runtimes": {"torchDistributedWithCache": {"enabled": True}}}},
        "dataCache: ktrain has no data cache",
    ),
    ({"image": {"repository": UPSTREAM, "tag": "v2.3.0"}}, "image: this is the operator of Kubeflow Trainer"),
    (
        {"image": {"registry": "mirror.example.com", "repository": UPSTREAM}},
        "image: this is the operator of Kubeflow Trainer",
    ),
    ({"image": {"repository": f"mirror/{UPSTREAM}"}}, "image: this is the operator of Kubeflow Trainer"),
]


@pytest.mark.parametrize(("values", "problem"), WRONG, ids=[problem[:40] for _, problem in WRONG])
def test_wrong_values_are_refused_with_their_path(helm, values, problem):
    done = helm.run("template", RELEASE, CHART, "--namespace", NAMESPACE, "--values", "-", stdin=yaml.safe_dump(values))

    assert done.returncode != 0
    assert problem in done.stderr


def image_of(found):
    (deployment,) = of_kind(found, "Deployment")
    return deployment["spec"]["template"]["spec"]["containers"][0]["image"]


def configuration_of(found):
    (content,) = [one["data"]["config.yaml"] for one in of_kind(found, "ConfigMap") if "config.yaml" in one["data"]]
    return yaml.safe_load(content)


def test_a_file_with_all_values_of_kubeflows_chart_installs_ktrain(render):
    found = render("--values", VALUES / "kubeflow-defaults.yaml")

    assert image_of(found) == image_of(render())
    configuration = configuration_of(found)
    assert configuration["controller"]["groupKindConcurrency"] == {
        "TrainJob.trainer.kubeflow.org": 5,
        "TrainingRuntime.trainer.kubeflow.org": 1,
        "ClusterTrainingRuntime.trainer.kubeflow.org": 1,
    }
    assert configuration["metrics"] == {"bindAddress": ":8443", "secureServing": True}
    (deployment,) = of_kind(found, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    security = deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"] is True


def test_kubeflows_runtimes_have_its_names_and_images(render):
    runtimes = {
        one["metadata"]["name"]: yaml.safe_dump(one)
        for one in of_kind(render("--values", VALUES / "kubeflow-platform.yaml"), "ClusterTrainingRuntime")
        if "pre-delete" not in one["metadata"]["annotations"]["helm.sh/hook"]
    }

    assert sorted(runtimes) == [
        "deepspeed-distributed",
        "jax-distributed",
        "mlx-distributed",
        "torch-distributed",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
        "xgboost-distributed",
    ]
    assert "ghcr.io/kubeflow/trainer/mlx-runtime:v2.3.0" in runtimes["mlx-distributed"]
    assert all("webhook-validation: disabled" in text for text in runtimes.values())


def test_images_of_runtimes_can_be_mirrored(render):
    runtimes = {
        one["metadata"]["name"]: yaml.safe_dump(one)
        for one in of_kind(render("--values", VALUES / "35-every-runtime.yaml"), "ClusterTrainingRuntime")
    }

    assert len(runtimes) == 11
    assert "mirror.example.com/kubeflow/trainer/deepspeed-runtime:v2.3.1" in runtimes["deepspeed-distributed"]
    assert "image: local/torchtune:v2.3.0" in runtimes["torchtune-llama3.2-1b"]
    assert "helm.sh/hook" not in "".join(runtimes.values())


@pytest.mark.parametrize(
    ("jobset", "runs"),
    [({}, True), ({"install": False}, False), ({"mode": "external"}, False), ({"mode": "builtin"}, True)],
)
def test_jobsets_are_run_as_either_name_says(render, jobset, runs):
    found = render(values={"jobset": jobset})

    assert configuration_of(found)["jobset"]["enable"] is runs
    definitions = [one["metadata"]["name"] for one in of_kind(found, "CustomResourceDefinition")]
    assert ("jobsets.jobset.x-k8s.io" in definitions) is runs
    webhooks = [one["metadata"]["name"] for one in of_kind(found, "ValidatingWebhookConfiguration")]
    assert ("ktrain-jobset" in webhooks) is runs
    roles = [one["metadata"]["name"] for one in of_kind(found, "ClusterRole")]
    assert ("ktrain-controller-manager-jobset" in roles) is runs


def test_namespaced_mode_has_no_right_in_the_cluster(render):
    found = render("--values", VALUES / "26-namespaced-with-webhooks.yaml")

    assert not of_kind(found, "ClusterRole") + of_kind(found, "ClusterRoleBinding")
    places = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in of_kind(found, "Role")}
    assert places == {
        ("team-a", "ktrain-controller-manager"),
        (NAMESPACE, "ktrain-controller-manager"),
        (NAMESPACE, "ktrain-controller-manager-system"),
        (NAMESPACE, "kubeflow-trainer-public"),
    }
    webhooks = [
        webhook
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for one in of_kind(found, kind)
        for webhook in one["webhooks"]
    ]
    (expression,) = {yaml.safe_dump(one["namespaceSelector"]["matchExpressions"]) for one in webhooks}
    assert yaml.safe_load(expression)[0]["values"] == ["team-a", NAMESPACE]
    runtimes = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in of_kind(found, "TrainingRuntime")}
    assert runtimes == {(space, name) for space in ("team-a", NAMESPACE) for name in ("plain", "torch-distributed")}
    assert not of_kind(found, "ClusterTrainingRuntime")


def test_a_changed_setting_rolls_the_pods(render):
    def checksum(values):
        (deployment,) = of_kind(render(values=values), "Deployment")
        return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum({}) == checksum({"service": {"labels": {"a": "b"}}})
    assert checksum({}) != checksum({"manager": {"config": {"snapshots": "shared"}}})


def test_names_can_be_those_of_kubeflows_chart(render):
    found = render("--values", VALUES / "02-kubeflow-names.yaml")
    (deployment,) = of_kind(found, "Deployment")

    assert deployment["metadata"]["name"] == "kubeflow-trainer-controller-manager"
    assert deployment["spec"]["selector"]["matchLabels"] == {
        "app.kubernetes.io/name": "kubeflow-trainer",
        "app.kubernetes.io/instance": RELEASE,
        "app.kubernetes.io/part-of": "kubeflow",
        "app.kubernetes.io/component": "manager",
    }
    assert [one["metadata"]["name"] for one in of_kind(found, "Secret")] == ["kubeflow-trainer-webhook-cert"]


def test_definitions_are_kept_unless_asked_otherwise(helm):
    keep = "helm.sh/resource-policy: keep"

    assert template(helm).count(keep) == 5
    assert keep not in template(helm, values={"crds": {"keep": False}})


def test_without_an_election_the_old_replica_is_gone_before_the_new_one_works(render):
    values = {"manager": {"replicas": 1, "config": {"leaderElection": {"leaderElect": False}}}}
    (found,) = [one for one in render(values=values) if one["kind"] == "Deployment"]

    assert found["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(("snapshots", "may"), [("perJob", False), ("shared", True)])
def test_only_shared_snapshots_may_be_deleted(render, snapshots, may):
    roles = [
        one for one in render(values={"manager": {"config": {"snapshots": snapshots}}}) if one["kind"] == "ClusterRole"
    ]
    rules = [rule for role in roles for rule in role["rules"] if "configmaps" in rule["resources"]]

    assert any("delete" in rule["verbs"] for rule in rules) == may
