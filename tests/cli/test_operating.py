from ktrain.cli.config import Configuration
from ktrain.cli.operating import operate


def test_traces_to_nowhere_known_are_refused_before_anything_starts(monkeypatch, capsys):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "smoke-signals")

    assert operate(Configuration(), None) == 1
    assert capsys.readouterr().err == (
        "ktrain: OTEL_TRACES_EXPORTER names 'smoke-signals'; there are otlp, console and none\n"
    )
