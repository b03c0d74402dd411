"""What is a report, and what is said against one."""

import pytest

from ktrain.api.meta import Key
from ktrain.controllers.statusserver.report import NoReport, decode, problem

WHEN = '"lastUpdatedTime": "2026-11-21T10:00:00.75+02:00"'


def status(text):
    return b'{"trainerStatus": {%s}}' % text.encode()


def test_a_report_goes_on_with_its_time_in_utc_to_the_second_and_without_what_nobody_knows():
    text = f'"progressPercentage": 7, "other": 1, "metrics": [{{"name": "loss", "value": "0.1"}}], {WHEN}'

    assert decode(status(text)).as_json() == {
        "trainerStatus": {
            "progressPercentage": 7,
            "metrics": [{"name": "loss", "value": "0.1"}],
            "lastUpdatedTime": "2026-11-21T08:00:00Z",
        }
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        status('"progressPercentage": "7"'),
        status('"progressPercentage": 7.5'),
        status('"metrics": [{"name": "loss", "value": 0.1}]'),
        status('"lastUpdatedTime": "yesterday"'),
        status('"lastUpdatedTime": "2026-11-21T10:00:00"'),
        b'{"trainerStatus": 1}',
        b'{"other": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"\xef\xbb\xbf{}",
        b"{} {}",
        status('"progressPercentage": NaN'),
        status('"progressPercentage": 42.0'),
        status('"progressPercentage": true'),
        status('"estimatedRemainingSeconds": 2147483648'),
        status('"estimatedRemainingSeconds": -2147483649'),
        status('"estimatedRemainingSeconds": ' + "9" * 400),
        status('"estimatedRemainingSeconds": ' + "9" * 40_000),
        status('"metrics": {}'),
        status('"metrics": [null]'),
        status('"metrics": [{"name": "\\ud800", "value": "1"}]'),
        status('"metrics": [{"name": "X", "value": "1"}]').replace(b"X", b"\xff"),
        status('"lastUpdatedTime": "9999-12-31T23:59:59-12:00"'),
        status('"lastUpdatedTime": "0001-01-01T00:00:00+12:00"'),
        status('"lastUpdatedTime": "2026-02-30T10:00:00Z"'),
        status('"lastUpdatedTime": 1763719200'),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_no_report_is_told_apart(body):
    with pytest.raises(NoReport):
        decode(body)


@pytest.mark.parametrize("body", [b"{}", b'{"trainerStatus": null}', b'{"other": {}}'])
def test_a_report_may_say_nothing(body):
    assert decode(body).as_json() == {}


@pytest.mark.parametrize(("percentage", "expected"), [(100, True), (99, False)])
def test_a_job_at_a_hundred_is_done(percentage, expected):
    assert decode(status(f'"progressPercentage": {percentage}')).is_terminal is expected


BELOW = "status.trainerStatus.{0}: Invalid value: {1}: trainerStatus.{0} in body should be {2}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WHEN, None),
        (f'"progressPercentage": 0, "estimatedRemainingSeconds": 0, "metrics": [], {WHEN}', None),
        (
            f'"progressPercentage": 101, {WHEN}',
            BELOW.format("progressPercentage", 101, "less than or equal to 100"),
        ),
        (
            f'"estimatedRemainingSeconds": -1, {WHEN}',
            BELOW.format("estimatedRemainingSeconds", -1, "greater than or equal to 0"),
        ),
        (
            '"progressPercentage": 1',
            "status.trainerStatus: Invalid value: lastUpdatedTime is required when trainerStatus is present",
        ),
        (f'"progressPercentage": -1, {WHEN}', BELOW.format("progressPercentage", -1, "greater than or equal to 0")),
        ('"lastUpdatedTime": "0001-01-01T00:00:00Z"', None),
        (f'"metrics": [{{"name": "a", "value": "1"}}, {{"name": "a", "value": "2"}}], {WHEN}', None),
        (f'"metrics": [{{"name": "{"x" * 64}", "value": "\\u0000"}}], {WHEN}', None),
        (f'"metrics": [{{"value": "1"}}], {WHEN}', BELOW.format("metrics[0].name", '""', "at least 1 chars long")),
    ],
)
def test_it_is_judged_in_the_api_servers_words(text, said):
    found = problem(Key("team", "job"), decode(status(text)).as_json())

    assert found == (said and f'TrainJob.trainer.kubeflow.org "job" is invalid: {said}')


def test_as_many_metrics_as_fit_into_a_body_cost_no_more_than_a_few_too_many():
    flood = decode(status(f'"metrics": [{",".join(["{}"] * 20_000)}], {WHEN}'))
    said = problem(Key("team", "job"), flood.as_json())

    assert "status.trainerStatus.metrics: Too many: 257: must have at most 256 items" in said
    assert len(said) < 100_000
