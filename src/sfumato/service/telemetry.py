"""Logs, metrics and traces.

They contain nothing that a caller wrote and nothing of an answer. A request is logged as its route, method, status,
analyst and duration; a failure of the ledger with its message, which is for the owner; an unexpected error as its class
and the lines of code that it passed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from sfumato.errors import ConfigError

METRICS_TYPE = CONTENT_TYPE_LATEST

_LOG = logging.getLogger("sfumato.service")
_OWN_LOGGERS = frozenset(("sfumato", "uvicorn"))  # their messages are constant texts; arguments are not filled in
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_FLUSH_MS = 5000


@dataclass(slots=True)
class CallRecord:
    """What is logged of one request. Filled in while it is processed."""

    request_id: str
    method: str
    route: str = "unmatched"
    status: int = 0
    analyst: str | None = None
    problem: str | None = None
    why: str | None = None
    error: str | None = None
    seconds: float = 0

    @property
    def level(self) -> int:
        if self.error is not None:
            return logging.ERROR
        return logging.INFO if self.why is None else logging.WARNING

    def line(self) -> dict[str, Any]:
        """The log line."""
        line: dict[str, Any] = {
            "at": _now(),
            "level": logging.getLevelName(self.level).lower(),
            "event": "request",
            "request_id": self.request_id,
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "ms": round(self.seconds * 1000, 1),
        }
        optional = {"analyst": self.analyst, "problem": self.problem, "why": self.why, "error": self.error}
        return line | {name: value for name, value in optional.items() if value is not None}


class Telemetry:
    """Metrics, request log and traces of one process. `metrics` sums over all worker processes."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        labels = "method", "route", "status"
        requests = Counter("sfumato_requests", "Requests by route and status.", labels, registry=registry)
        self._problems = Counter("sfumato_problems", "Problems by type.", ("kind",), registry=registry)
        self._answers = Counter("sfumato_answers", "Answers, new and repeated.", ("repeat",), registry=registry)
        self._reports = Counter("sfumato_reports", "Reports, new and repeated.", ("repeat",), registry=registry)
        text = "Seconds until the response began, including padding."
        seconds = Histogram("sfumato_request_seconds", text, ("route",), registry=registry, buckets=_SECONDS)
        self._requests, self._seconds = cache(requests.labels), cache(seconds.labels)
        self.tracer = Tracer.find()

    def count_answer(self, *, repeat: bool) -> None:
        self._answers.labels("true" if repeat else "false").inc()

    def count_report(self, *, repeat: bool) -> None:
        self._reports.labels("true" if repeat else "false").inc()

    def finish(self, record: CallRecord) -> None:
        """Count and log a finished request."""
        self._requests(record.method, record.route, str(record.status)).inc()
        self._seconds(record.route).observe(record.seconds)
        if record.problem is not None:
            self._problems.labels(record.problem).inc()
        if _LOG.isEnabledFor(record.level):
            # Not through `logging`, which takes longer than all else in a repeated answer.
            with suppress(OSError, ValueError):
                sys.stderr.write(json.dumps(record.line()) + "\n")

    def flush(self) -> None:
        """Export pending traces. uvicorn ends the process by a signal, so no exit handler would run."""
        if self.tracer is not None:
            self.tracer.flush()

    def metrics(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        if _MULTIPROCESS not in os.environ:
            return generate_latest(self._registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


# -- logs --


def locate(error: BaseException) -> str:
    """The class of an error and the code it passed. Its message is left out: it may quote anything."""
    frames = traceback.extract_tb(error.__traceback__)
    places = (f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-6:])
    return f"{type(error).__name__} at {' > '.join(places)}"


class JsonLines(logging.Formatter):
    """One JSON object per line. Of other libraries' records only the place in the code is logged, not the message.

    Their messages can contain anything: URLs with passwords, SQL, values. Why this is not `python-json-logger`:
    docs/adr/0010-log-lines.md.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"at": _now(), "level": record.levelname.lower(), "logger": record.name}
        if record.name.partition(".")[0] in _OWN_LOGGERS and isinstance(record.msg, str):
            line |= {"event": record.msg, **getattr(record, "fields", {})}
        else:
            line["event"] = f"{record.filename}:{record.lineno}"
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = locate(record.exc_info[1])
        return json.dumps(line)


def log_to_stderr(level: str = "info") -> None:
    """Send all logs of this process to stderr, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], name != "uvicorn.access"
        logger.setLevel(logging.WARNING)  # below that it repeats our own lines


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# -- traces --


def set_up_tracing() -> None:
    """Export traces if OTEL_TRACES_EXPORTER is console or otlp, or if an OTEL_EXPORTER_OTLP_ENDPOINT is set."""
    exporter_name = os.environ.get(_EXPORTER) or ("otlp" if any(name in os.environ for name in _ENDPOINTS) else "none")
    if exporter_name == "none":
        return
    if exporter_name not in ("console", "otlp"):
        raise ConfigError(_EXPORTER, "must be console, otlp or none")
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

        exporter: SpanExporter
        if exporter_name == "console":
            exporter = ConsoleSpanExporter()
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("traces need: pip install 'sfumato[otel]'") from missing
    provider = TracerProvider(resource=Resource.create({"service.name": "sfumato"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


@dataclass(frozen=True, slots=True)
class Tracer:
    """One OpenTelemetry span per request."""

    tracer: Any

    @classmethod
    def find(cls) -> Tracer | None:
        """The tracer, if OpenTelemetry is installed and a provider is set up."""
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
        except ModuleNotFoundError:
            return None
        is_set_up = isinstance(trace.get_tracer_provider(), TracerProvider)
        return cls(trace.get_tracer("sfumato")) if is_set_up else None

    @contextmanager
    def span(self, record: CallRecord, traceparent: str | None) -> Iterator[None]:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {} if traceparent is None else {"traceparent": traceparent}
        parent = TraceContextTextMapPropagator().extract(carrier)
        # The exception itself is not recorded: its message may quote anything.
        with self.tracer.start_as_current_span(
            record.method, context=parent, kind=SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            finally:
                span.update_name(f"{record.method} {record.route}")
                span.set_attribute("http.request.method", record.method)
                span.set_attribute("http.route", record.route)
                span.set_attribute("http.response.status_code", record.status)
                span.set_attribute("sfumato.request_id", record.request_id)
                if record.problem is not None:
                    span.set_attribute("error.type", record.problem)

    def flush(self) -> None:
        from opentelemetry import trace

        provider: Any = trace.get_tracer_provider()
        provider.force_flush(_FLUSH_MS)
