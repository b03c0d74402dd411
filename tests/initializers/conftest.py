"""What the programs fetch from: S3 (`moto` is everybody's), a few words of the Hub's API, and a bad line to either."""

from __future__ import annotations

import random
import urllib.request

import boto3
import pytest

from ktrain.initializers.retry import Retry

from .servers import HubServer

QUICK = Retry(attempts=3, base_s=0.001, cap_s=0.002, random=random.Random(1))
"""Delays that no test waits for."""


@pytest.fixture
def s3(moto, monkeypatch):
    """A client of an S3 server with one empty bucket, `bucket`; the environment has a key of it and nothing else."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    urllib.request.urlopen(urllib.request.Request(f"{moto}/moto-api/reset", method="POST")).close()
    client = boto3.client("s3", endpoint_url=moto, region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    yield client
    client.close()


@pytest.fixture
def hub():
    """A Hub without a repository."""
    with HubServer() as server:
        yield server


@pytest.fixture
def lines(monkeypatch):
    """The events that were logged."""
    import structlog.testing

    with structlog.testing.capture_logs() as captured:
        yield captured
