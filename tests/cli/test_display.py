import io

import pytest

from ktrain.api.meta import ObjectMeta
from ktrain.api.trainer import Metric, TrainerStatus
from ktrain.cli.display import LiveDisplay, OutputClosed, PlainDisplay, tame, write
from ktrain.cli.follow import FollowedJob, FollowedStatus, Progress, progress


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


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        (TrainerStatus(42, 3661, (Metric("loss", "0.5"),)), "42 %, 1:01:01 left, loss 0.5"),
        (TrainerStatus(0), "0 %"),
        (TrainerStatus(metrics=tuple(Metric(name, "1") for name in "abcd")), "a 1, b 1, c 1, ..."),
        (TrainerStatus(metrics=(Metric("two\nlines", "1\r2"),)), "two lines 1 2"),
        (TrainerStatus(), ""),
    ],
)
def test_what_a_trainer_reports_is_a_few_words_on_one_line(reported, shown):
    job = FollowedJob(metadata=ObjectMeta(name="job"), status=FollowedStatus(trainer_status=reported))

    assert str(progress(job, None, [], [])) == "; ".join(filter(None, ["Pending", shown]))


def test_a_report_does_not_take_the_terminal_over():
    stream = Terminal()
    with LiveDisplay(stream, "job", lambda: 1.0) as display:
        display.status(Progress(reported="\x1b[2Jcleared\x1b]0;title\x07"))
        display.tick()

    assert "\x1b[2J" not in stream.getvalue()
    assert "cleared" in stream.getvalue()
