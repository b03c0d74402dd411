"""TorchTune: the command of `tune run`, and what is refused."""

import pytest

RUNTIME = """
spec:
  mlPolicy: {numNodes: 1, torch: {envInjection: {targets: [{jobName: node, containerNames: [side]}]}}}
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: L}, spec: {template: {spec: {
    containers: [{name: node, image: i, command: [tune, run, --rdzv_endpoint=localhost:29500, seed=7,
      output_dir=/out, tokenizer.path=/t, tokenizer.merges_file=/m, checkpointer.checkpoint_dir=/c]%s},
      {name: side, image: s}]}}}}}]}}
"""
OWN = ["output_dir=/out", "tokenizer.path=/t", "tokenizer.merges_file=/m", "checkpointer.checkpoint_dir=/c"]
JOB = (
    "{metadata: {name: ft, namespace: team, uid: u},"
    " spec: {runtimeRef: {name: %s}, trainer: {command: [tune, run], %s}}}"
)
LLAMA, BIG, QWEN = "torchtune-llama3.2-1b", "torchtune-llama3.3-70b", "torchtune-qwen2.5-1.5b"
LORA, QLORA = "'model.lora_attn_modules=[q_proj]'", "model.quantize_base=True"
MEET = "--rdzv_endpoint=ft-node-0-0.ft:29500"


def gpus(count):
    return f", resources: {{limits: {{nvidia.com/gpu: {count}}}}}"


@pytest.mark.parametrize(
    ("runtime", "gpu_count", "trainer", "expected"),
    [
        (LLAMA, 2, "", [MEET, "full_finetune_distributed", "--config", "llama3_2/1B_full"]),
        (LLAMA, 1, "", ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
        (LLAMA, 0, "", ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
        (LLAMA, 4, "numProcPerNode: 1", ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
        (LLAMA, 0, "numProcPerNode: 4", [MEET, "full_finetune_distributed", "--config", "llama3_2/1B_full"]),
        (LLAMA, 2, f"args: [{LORA}]", [MEET, "lora_finetune_distributed", "--config", "llama3_2/1B_lora"]),
        (LLAMA, 1, f"args: [{LORA}]", ["lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"]),
        (LLAMA, 1, f"args: [{QLORA}]", ["lora_finetune_single_device", "--config", "llama3_2/1B_qlora_single_device"]),
        (LLAMA, 2, f"args: [{QLORA}]", [MEET, "lora_finetune_distributed", "--config", "llama3_2/1B_qlora"]),
        (
            LLAMA,
            2,
            f"args: [{LORA}, {QLORA}, 'model.use_dora= TRUE ']",
            [MEET, "lora_finetune_distributed", "--config", "llama3_2/1B_lora"],
        ),
        (
            BIG,
            8,
            f"numNodes: 3, args: [{LORA}]",
            [MEET, "full_finetune_distributed", "--config", "llama3_3/70B_full_multinode"],
        ),
        (LLAMA, 2, f"numNodes: 0, args: [{LORA}]", ["lora_finetune_distributed", "--config", "llama3_2/1B_lora"]),
        (QWEN, 1, "", ["full_finetune_single_device", "--config", "qwen2_5/1.5B_full_single_device"]),
        ("my-tune", 1, "", ["full_finetune_single_device", "--config", "_full_single_device"]),
    ],
)
def test_recipe_and_configuration_follow_from_model_and_machines(kit, runtime, gpu_count, trainer, expected):
    container = kit.container(RUNTIME % (gpus(gpu_count) if gpu_count else ""), JOB % (runtime, trainer))

    assert container["command"] == ["tune", "run", *expected, *OWN]


def test_the_users_arguments_stay_arguments(kit):
    container = kit.container(RUNTIME % gpus(2), JOB % (LLAMA, "args: [epochs=2]"))

    assert container["args"] == ["epochs=2"]


def test_where_to_meet_is_an_option_and_no_variable_but_for_injection_targets(kit):
    pod = kit.job_set(RUNTIME % gpus(2), JOB % (LLAMA, ""))["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    names = [[entry["name"] for entry in container["env"]] for container in pod["spec"]["containers"]]

    three = ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"]
    assert names == [three, [*three, "PET_MASTER_ADDR", "PET_MASTER_PORT"]]


@pytest.mark.parametrize("command", ["[tune, run, x]", "[tune]", "[bash, -c, tune run]", "[]"])
def test_any_other_command_is_left_alone(kit, command):
    container = kit.container(RUNTIME % "", (JOB % (LLAMA, "")).replace("[tune, run]", command))

    assert container.get("command", []) == [word.strip() for word in command.strip("[]").split(",") if word]
    assert "PET_MASTER_ADDR" in [entry["name"] for entry in container["env"]]


QLORA_NEEDS = "must %s for llama3_2/1B model when using QLoRA"
OF_THE_RUNTIME = 'must not set immutable config "%s" in trainer args; it is managed by the runtime'
UNSUPPORTED = "must have a supported pretrained model, invalid model configured: "
NO_LORA = "LoRA fine-tuning is not supported for multi-node training in TorchTune"


@pytest.mark.parametrize(
    ("runtime", "gpu_count", "trainer", "expected"),
    [
        (LLAMA, 2, "args: [epochs=1]", []),
        (LLAMA, 1, f"numNodes: 0, args: [{QLORA}]", []),
        (
            "torchtune-llama3.1-70b",
            2,
            "",
            [("spec.runtimeRef.name", '"torchtune-llama3.1-70b"', f"{UNSUPPORTED}llama3_1/70B")],
        ),
        ("my-tune", 2, "", [("spec.runtimeRef.name", '"my-tune"', UNSUPPORTED)]),
        (LLAMA, 2, "numNodes: 2", [("spec.trainer.numNodes", "2", "must be 1 for llama3_2/1B model")]),
        (BIG, 8, "numNodes: 2", []),
        (
            QWEN,
            1,
            f"args: [{QLORA}]",
            [("spec.runtimeRef.name", f'"{QWEN}"', "QLoRA is not supported for qwen2_5/1.5B model")],
        ),
        (
            LLAMA,
            2,
            f"numProcPerNode: 2, args: [{QLORA}]",
            [
                ("spec.trainer.numProcPerNode", "2", QLORA_NEEDS % "be auto or 1"),
                ("spec.trainer.resourcesPerNode", "null", QLORA_NEEDS % "have gpu resource with value 1"),
            ],
        ),
        (
            LLAMA,
            1,
            f"resourcesPerNode: {{limits: {{a/gpu: 3}}}}, args: [{QLORA}]",
            [
                ("spec.trainer.numProcPerNode", '"auto"', QLORA_NEEDS % "be auto or 1"),
                (
                    "spec.trainer.resourcesPerNode",
                    '{"limits":{"a/gpu":3}}',
                    QLORA_NEEDS % "have gpu resource with value 1",
                ),
            ],
        ),
        (LLAMA, 2, f"numProcPerNode: 1, args: [{QLORA}]", []),
        (LLAMA, 1, f"args: [{QLORA}]", []),
        (LLAMA, 2, f"args: [{QLORA}, model.use_dora=true]", []),
        (BIG, 8, f"numNodes: 2, args: [{QLORA}]", [("spec.trainer.numNodes", "2", NO_LORA)]),
        (
            LLAMA,
            2,
            "args: [epochs=1, output_dir=/x, tokenizer.merges_file=/y]",
            [
                ("spec.trainer.args[1]", '"output_dir=/x"', OF_THE_RUNTIME % "output_dir"),
                ("spec.trainer.args[2]", '"tokenizer.merges_file=/y"', OF_THE_RUNTIME % "tokenizer.merges_file"),
            ],
        ),
    ],
)
def test_what_torchtune_cannot_do_is_refused(kit, runtime, gpu_count, trainer, expected):
    errors = kit.errors(RUNTIME % gpus(gpu_count), JOB % (runtime, trainer))

    assert errors == [f"{path}: Invalid value: {value}: {detail}" for path, value, detail in expected]
