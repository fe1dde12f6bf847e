"""Traces, where OpenTelemetry is installed and its own environment variables ask for them."""

from __future__ import annotations

import os

from sfumato.errors import ConfigError

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def trace_as_asked() -> None:
    """Set up traces: OTEL_TRACES_EXPORTER=console|otlp, or an OTEL_EXPORTER_OTLP_ENDPOINT; none without either."""
    pointed = any(name in os.environ for name in _ENDPOINTS)
    wanted = os.environ.get(_EXPORTER) or ("otlp" if pointed else "none")
    if wanted == "none":
        return
    if wanted not in ("console", "otlp"):
        raise ConfigError(_EXPORTER, "must be console, otlp or none")
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

        exporter: SpanExporter
        if wanted == "console":
            exporter = ConsoleSpanExporter()
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("traces need: pip install 'sfumato[otel]'") from missing
    provider = TracerProvider(resource=Resource.create({"service.name": "sfumato"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
