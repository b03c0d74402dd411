import io
import json

import pytest
import structlog

from ktrain.framework.logging import configure


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def lines():
    """What a failure with a secret at hand leaves in the log, as text or as JSON, on a terminal or not."""

    def fail(token):
        raise ValueError("the server said no")

    def write(stream, **options):
        configure(stream=stream, **options)
        token = "hunter2"
        try:
            fail(token)
        except ValueError as error:
            structlog.get_logger("test").exception("request.failed", name="a")
            structlog.get_logger("test").error("request.failed", name="b", exc_info=error)
        structlog.get_logger("test").debug("request.sent")
        return stream.getvalue()

    yield write
    structlog.reset_defaults()


@pytest.mark.parametrize("options", [{"json": True}, {"json": False}, {}])
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_traceback_names_the_place_and_never_the_values(lines, stream, options):
    text = lines(stream(), **options)

    assert "hunter2" not in text
    assert text.count("the server said no") >= 2
    assert text.count("in fail") == 2
    assert "request.sent" not in text


def test_elsewhere_than_on_a_terminal_each_line_is_a_json_document(lines):
    events = [json.loads(line) for line in lines(io.StringIO()).splitlines()]

    assert [(event["event"], event["name"], event["level"]) for event in events] == [
        ("request.failed", "a", "error"), ("request.failed", "b", "error"),
    ]  # fmt: skip
