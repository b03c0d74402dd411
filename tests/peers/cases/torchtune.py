"""What `tune run` becomes, and what TorchTune cannot do."""

from ..objects import Json, container, create, job, rjob, runtime

TUNE = ["tune", "run"]
OVERRIDES = [
    "output_dir=/o",
    "tokenizer.path=/t",
    "seed=1",
    "tokenizer.merges_file=/m",
    "checkpointer.checkpoint_dir=/c",
    "output_dir.x=1",
]


def tuning(name: str, gpus: str = "", nodes: int = 1, command: list[str] | None = None) -> Json:
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {"limits": {"cpu": "4"}}
    node = rjob("node", container(command=command or [*TUNE, "x", *OVERRIDES], resources=resources))
    return runtime(name, node, ml={"torch": {}, "numNodes": nodes})


def tune(name: str, of: str, *args: str, **trainer: object) -> Json:
    return job(name, of, trainer={"command": TUNE, "args": list(args), **trainer})


LORA = "model.lora_attn_modules=[q_proj]"
QLORA = "model.quantize_base=True"

CASES = {
    "torchtune": [
        create(
            tuning("torchtune-llama3.2-3b", "1"),
            tuning("torchtune-qwen2.5-1.5b", "4"),
            tuning("torchtune-llama3.2-1b"),
            tuning("torchtune-llama3.3-70b", "8", nodes=2),
            *(
                item
                for of in (
                    "torchtune-llama3.2-3b",
                    "torchtune-qwen2.5-1.5b",
                    "torchtune-llama3.2-1b",
                    "torchtune-llama3.3-70b",
                )
                for prefix in (of.split("-", 1)[1].replace(".", "-"),)
                for item in (
                    tune(f"{prefix}-full", of, "epochs=1"),
                    tune(f"{prefix}-lora", of, LORA),
                    tune(f"{prefix}-qlora", of, LORA, QLORA),
                    tune(f"{prefix}-dora", of, LORA, QLORA, "model.use_dora=true"),
                    tune(f"{prefix}-off", of, LORA, "model.quantize_base=false"),
                    tune(f"{prefix}-one", of, numProcPerNode=1),
                    tune(f"{prefix}-two", of, QLORA, numProcPerNode=2),
                    tune(f"{prefix}-nodes", of, numNodes=2),
                    tune(f"{prefix}-lora-nodes", of, LORA, numNodes=3),
                    tune(f"{prefix}-cpu", of, QLORA, resourcesPerNode={"limits": {"nvidia.com/gpu": "1"}}),
                )
            ),
        )
    ],
    "torchtune-refused": [
        create(
            tuning("torchtune-llama3.2-1b", "2"),
            tuning("torchtune-llama-3.2-1b"),
            tuning("torchtune-gemma2-2b"),
            tuning("tune"),
            tuning("my-llama3.2-1B".lower(), "1"),
            tune(
                "key",
                "torchtune-llama3.2-1b",
                "output_dir=/x",
                "epochs=1",
                "tokenizer.path=",
                "checkpointer.checkpoint_dir",
                "tokenizer.merges_file=1=2",
                "model.output_dir=1",
            ),
            tune("dashes", "torchtune-llama-3.2-1b"),
            tune("family", "torchtune-gemma2-2b", numNodes=2),
            tune("short", "tune", QLORA),
            tune("mine", "my-llama3.2-1b", QLORA, " model.quantize_base = TRUE "),
            job(
                "other-command",
                "torchtune-gemma2-2b",
                trainer={"command": ["tune", "run", "x"], "args": ["output_dir=1"]},
            ),
            job("no-command", "torchtune-llama3.2-1b", trainer={"args": ["output_dir=1"]}),
        )
    ],
}
