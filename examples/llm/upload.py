"""
Makes a model and a dataset and puts them into an S3 server: `python examples/llm/upload.py [ENDPOINT]`.

The model is a Llama of 100,000 random weights with a tokenizer of its own. The dataset is sums of two digits in words.
Both are small enough for a laptop and have the same files as a real model and a real dataset.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

import boto3
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BUCKET = "llm"
ROWS = 256
SPECIAL = ["<s>", "</s>", "<pad>"]


def make_rows():
    """Return questions with their answers, in TRL's `prompt` and `completion`."""
    numbers = random.Random(0)
    pairs = [(numbers.randrange(10), numbers.randrange(10)) for _ in range(ROWS)]
    return [{"prompt": f"What is {a} plus {b}?", "completion": f" {a} plus {b} is {a + b}."} for a, b in pairs]


def make_tokenizer(rows):
    """Learn a byte-level tokenizer from the rows."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator((row["prompt"] + row["completion"] for row in rows), trainer)
    begin, end, pad = SPECIAL
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=begin, eos_token=end, pad_token=pad)


def make_model(words):
    """Return an untrained Llama for a vocabulary of so many words."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    return LlamaForCausalLM(config)


def main():
    endpoint = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:5055"
    keys = {"aws_access_key_id": "example", "aws_secret_access_key": "example"}
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    s3.create_bucket(Bucket=BUCKET)
    rows = make_rows()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    s3.put_object(Bucket=BUCKET, Key="sums/train.jsonl", Body=text.encode())
    tokenizer = make_tokenizer(rows)
    with tempfile.TemporaryDirectory() as directory:
        make_model(len(tokenizer)).save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        for file in Path(directory).iterdir():
            s3.upload_file(str(file), BUCKET, f"tiny-llama/{file.name}")
    print(f"{ROWS} rows are in s3://{BUCKET}/sums, a model is in s3://{BUCKET}/tiny-llama at {endpoint}")


if __name__ == "__main__":
    main()
