"""
What a process tells about itself, metrics aside.

    logging   structlog, set up once per process      tracing   the seam for spans      otel   its side of OpenTelemetry
"""
