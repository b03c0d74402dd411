import io

import pytest

from ktrain.cli.display import LiveDisplay, OutputClosed, PlainDisplay, tame, write
from ktrain.cli.follow import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_status_lines_appear_only_when_they_change():
    stream = io.StringIO()
    with PlainDisplay(stream, "job") as display:
        for phase in ("Pending", "Pending", "Starting"):
            display.status(Progress(phase))

    assert stream.getvalue() == "job: Pending\njob: Starting\n"


def test_lines_on_a_terminal_are_written_above_the_status_line_with_the_next_tick():
    stream = Terminal()
    with LiveDisplay(stream, "job", lambda: 61.0) as display:
        display.log("node-0", "one")
        display.log("node-0", "two")
        assert "one" not in stream.getvalue()
        display.tick()

    assert stream.getvalue().index("one") < stream.getvalue().index("two") < stream.getvalue().index("Pending")
    assert "1:01" in stream.getvalue()


def test_a_program_may_colour_its_lines_but_not_take_the_terminal_over():
    assert tame("\x1b[31mred\x1b[0m") == "\x1b[31mred\x1b[0m"
    assert tame("\x1b[2J\x1b[Hcleared\x1b]0;title\x07\x1bc\x00!") == "cleared!"


def test_a_reader_that_went_away_is_an_error_of_its_own():
    class Broken(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(OutputClosed, match="Broken pipe"):
        write(Broken(), "x")
