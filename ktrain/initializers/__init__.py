"""
What runs in the initializer steps of a TrainJob: `python -m ktrain.initializers.dataset` and `.model`.

They fetch a dataset or a model into a volume before the trainer starts. Nothing else of the house is imported here: the
programs start at once, run under any operator, and fail for no reason but their own.

- `dataset`, `model` the programs; `program` what they share: settings, log, exit codes
- `settings` the environment; `errors` what can go wrong, each with its exit code
- `source` what a place to fetch from can do; `s3` buckets; `hub` repositories of the Hugging Face Hub
- `selection` which files, and where each goes; `ledger` which are there already
- `download` fetches many files; `transfer` one, `retry` again and again until it is whole; `digest` proves that it is
"""
