import asyncio
import gc
import io
import json
import logging
import sys
import threading

import msgspec
import pytest
import structlog

from ktrain.api.meta import Key
from ktrain.framework import Client, HttpTransport, system_env
from ktrain.framework.client.credentials import Endpoint, StaticToken
from ktrain.framework.controller.context import Pass, current_pass
from ktrain.framework.errors import FrameworkError
from ktrain.framework.telemetry import foreign
from ktrain.framework.telemetry.logging import Limiter, configure


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


def test_json_has_an_exception_by_parts(lines):
    events = [json.loads(line) for line in lines(io.StringIO()).splitlines()]

    for event in events:
        assert event["exception"]["type"] == "builtins.ValueError"
        assert event["exception"]["message"] == "the server said no"
        assert event["exception"]["stacktrace"].startswith("Traceback")


@pytest.fixture
def stream():
    """Where lines go as JSON."""
    out = io.StringIO()
    configure(stream=out, json=True, level="info", lines_per_s=None)
    yield out
    structlog.reset_defaults()


async def test_lines_of_a_pass_carry_its_fields_and_what_a_line_says_itself_counts_more(stream):
    this = Pass("jobs", Key("a", "b"), "Job a/b updated", number=1, started_s=0.0, task=asyncio.current_task())
    token = current_pass.set(this)
    structlog.get_logger("inside").info("looked", object="a/c")
    current_pass.reset(token)
    structlog.get_logger("outside").info("looked")

    inside, outside = map(json.loads, stream.getvalue().splitlines())
    assert (inside["controller"], inside["object"], inside["reason"]) == ("jobs", "a/c", "Job a/b updated")
    assert "controller" not in outside


def test_a_flood_of_one_event_is_cut_and_counted_and_other_events_pass():
    now = [0.0]
    limiter = Limiter(3, clock=lambda: now[0])

    def write(event, method="warning"):
        try:
            return limiter(None, method, {"event": event})
        except structlog.DropEvent:
            return None

    written = [line for line in (write("watch.failed") for _ in range(1000)) if line]
    assert written == [{"event": "watch.failed"}] * 3
    assert write("election.lost", "error") == {"event": "election.lost"}
    assert write("watch.failed", "error") == {"event": "watch.failed"}

    now[0] = 1.0
    assert write("watch.failed") == {"event": "watch.failed", "suppressed": 997}
    assert write("watch.failed") == {"event": "watch.failed"}


def test_configure_bounds_a_flood():
    out = io.StringIO()
    configure(stream=out, json=True, lines_per_s=2)
    for number in range(50):
        structlog.get_logger("flood").warning("watch.failed", number=number)
    structlog.reset_defaults()

    # The second may turn over once on the way.
    assert 2 <= len(out.getvalue().splitlines()) <= 4


def test_what_libraries_python_and_lost_exceptions_say_is_json_too(stream):
    async def lose_a_task():
        async def fail():
            raise LookupError("lost in a task")

        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        del task
        gc.collect()

    def fail():
        raise LookupError("lost in a thread")

    before = sys.excepthook, sys.unraisablehook, threading.excepthook, logging.getLogger().level
    with foreign.adopted("info"), foreign.adopted("info"):
        logging.getLogger("aiohttp.server").warning("bad %s", "request")
        logging.getLogger("quiet").info("nobody needs this")
        # What `logging` makes of a warning; pytest keeps warnings to itself.
        logging.getLogger("py.warnings").warning("old")
        asyncio.run(lose_a_task())
        thread = threading.Thread(target=fail, name="worker")
        thread.start()
        thread.join()
        sys.excepthook(LookupError, LookupError("lost altogether"), None)
    assert (sys.excepthook, sys.unraisablehook, threading.excepthook, logging.getLogger().level) == before

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    said = [(one["event"], one.get("logger") or one.get("where"), one["level"]) for one in lines]
    assert said == [
        ("library.message", "aiohttp.server", "warning"),
        ("library.message", "py.warnings", "warning"),
        ("library.message", "asyncio", "error"),
        ("exception.uncaught", "thread worker", "error"),
        ("exception.uncaught", "process", "error"),
    ]
    assert lines[0]["message"] == "bad request"
    assert [one["exception"]["message"] for one in lines[2:]] == [
        "lost in a task",
        "lost in a thread",
        "lost altogether",
    ]


SECRET = "hunter2-is-the-token"


@pytest.mark.parametrize("json_lines", [True, False])
async def test_a_token_is_in_no_line_whatever_a_call_ends_with(script, json_lines, unused_tcp_port):
    """Refusals, a dead server, an answer that is no JSON: logged as errors, with their stack."""
    out = io.StringIO()
    configure(stream=out, json=json_lines, level="debug", lines_per_s=None)
    endpoint = Endpoint(f"http://127.0.0.1:{unused_tcp_port}", StaticToken(SECRET))
    dead = HttpTransport(endpoint)
    script.answers += [
        (401, {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}),
        (403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": 'User "a" cannot get pods'}),
        (200, ["no", "object"]),
    ]
    headers = {"Authorization": f"Bearer {SECRET}"}
    log = structlog.get_logger("secrets")
    for transport in (script, script, script, dead):
        client = Client(transport, system_env(), field_manager="test")
        try:
            response = await client.raw("GET", "/api/v1/namespaces/a/pods/b", headers=headers)
            msgspec.json.decode(response.body, type=dict)
        except (FrameworkError, msgspec.MsgspecError) as error:
            log.warning("call.failed", error=str(error), exc_info=error)
            log.warning("call.failed", error=repr(error), endpoint=repr(endpoint))
    await dead.aclose()
    structlog.reset_defaults()

    assert out.getvalue().count("call.failed") == 8
    assert SECRET not in out.getvalue()


def test_a_value_or_an_error_cannot_command_a_terminal():
    out = Terminal()
    configure(stream=out)
    red = "\x1b[31mred"
    try:
        structlog.get_logger("test").warning("list.failed", error=red, object=Key("ns", "a"))
        structlog.get_logger("test").error("request.failed", exc_info=ValueError(red))
    finally:
        structlog.reset_defaults()
    assert red not in out.getvalue()
    assert out.getvalue().count(r"\x1b[31mred") == 2
    assert "ValueError: " in out.getvalue()
