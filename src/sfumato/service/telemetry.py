"""What operators see of the service: logs, metrics and traces.

None of it carries anything that a caller wrote or an answer holds. A request is its route as the code names it, its
method, its status, who asked and how long it took; an error is its class and the lines of code it passed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

METRICS_TYPE = CONTENT_TYPE_LATEST

_LOG = logging.getLogger("sfumato.service")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_OURS = frozenset(("sfumato", "uvicorn"))  # their templates are constant; arguments are never filled in
_SHARED = "PROMETHEUS_MULTIPROC_DIR"
_FLUSH_MS = 5000


@dataclass(slots=True)
class CallRecord:
    """One request, as far as operators may see it. Filled in while it is answered."""

    request_id: str
    method: str
    route: str = "unmatched"
    status: int = 0
    analyst: str | None = None
    problem: str | None = None
    error: str | None = None
    seconds: float = 0

    def line(self) -> dict[str, Any]:
        """For the log."""
        line: dict[str, Any] = {
            "at": _now(),
            "level": "info" if self.error is None else "error",
            "event": "request",
            "request_id": self.request_id,
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "ms": round(self.seconds * 1000, 1),
        }
        told = {"analyst": self.analyst, "problem": self.problem, "error": self.error}
        return line | {name: value for name, value in told.items() if value is not None}


class Telemetry:
    """Counters and logs of one process; with several workers, the counters of all are read together."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        labels = "method", "route", "status"
        self._requests = Counter("sfumato_requests", "Requests by route and status.", labels, registry=registry)
        self._problems = Counter("sfumato_problems", "Problems by their kind.", ("kind",), registry=registry)
        self._answers = Counter("sfumato_answers", "Answers, new ones and repeats.", ("repeat",), registry=registry)
        self._reports = Counter("sfumato_reports", "Reports, new ones and repeats.", ("repeat",), registry=registry)
        words = "Seconds until a response began, padding and all."
        self._seconds = Histogram("sfumato_request_seconds", words, ("route",), registry=registry, buckets=_SECONDS)
        self._counted = cache(self._requests.labels)
        self._timed = cache(self._seconds.labels)
        self.traced = _tracer()

    def answered(self, *, repeat: bool) -> None:
        self._answers.labels("true" if repeat else "false").inc()

    def reported(self, *, repeat: bool) -> None:
        self._reports.labels("true" if repeat else "false").inc()

    def saw(self, seen: CallRecord) -> None:
        """Count a finished request, and log it."""
        self._counted(seen.method, seen.route, str(seen.status)).inc()
        self._timed(seen.route).observe(seen.seconds)
        if seen.problem is not None:
            self._problems.labels(seen.problem).inc()
        if _LOG.isEnabledFor(logging.INFO):
            write_line(seen.line())

    def flush(self) -> None:
        """Send what is still on its way: uvicorn ends with the signal that stopped it, which nothing runs after."""
        if self.traced is not None:
            self.traced.flush()

    def metrics(self) -> bytes:
        """In the text format of Prometheus."""
        if _SHARED not in os.environ:
            return generate_latest(self._registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def where(error: BaseException) -> str:
    """An unexpected error by its class and the code it passed; its words may quote anything, and are left out."""
    frames = traceback.extract_tb(error.__traceback__)
    places = (f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-6:])
    return f"{type(error).__name__} at {' > '.join(places)}"


class JsonLines(logging.Formatter):
    """One JSON object a line. Of what other libraries log only that they did is kept, and at which line.

    Their words can hold anything: addresses with secrets in them, SQL, cells.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"at": _now(), "level": record.levelname.lower(), "logger": record.name}
        if record.name.partition(".")[0] in _OURS and isinstance(record.msg, str):
            line |= {"event": record.msg, **getattr(record, "fields", {})}
        else:
            line["event"] = f"{record.filename}:{record.lineno}"
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = where(record.exc_info[1])
        return json.dumps(line)


def write_line(line: Mapping[str, Any]) -> None:
    """One line on stderr, past the machinery of `logging`, which costs more than the rest of a repeat."""
    with suppress(OSError, ValueError):
        sys.stderr.write(json.dumps(line) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def log_to_stderr(level: str = "info") -> None:
    """Send all logs of this process to stderr, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], name != "uvicorn.access"
        logger.setLevel(logging.WARNING)  # what it says below that, our own lines say


@dataclass(frozen=True, slots=True)
class _Tracer:
    """OpenTelemetry, where it is installed and its own environment variables ask for it."""

    tracer: Any

    @contextmanager
    def around(self, seen: CallRecord, traceparent: str | None) -> Iterator[None]:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {} if traceparent is None else {"traceparent": traceparent}
        parent = TraceContextTextMapPropagator().extract(carrier)
        # The exception itself is not recorded: its words may quote anything.
        with self.tracer.start_as_current_span(
            seen.method, context=parent, kind=SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            finally:
                self._describe(span, seen)

    def flush(self) -> None:
        from opentelemetry import trace

        provider: Any = trace.get_tracer_provider()
        provider.force_flush(_FLUSH_MS)

    def _describe(self, span: Span, seen: CallRecord) -> None:
        span.update_name(f"{seen.method} {seen.route}")
        span.set_attribute("http.request.method", seen.method)
        span.set_attribute("http.route", seen.route)
        span.set_attribute("http.response.status_code", seen.status)
        span.set_attribute("sfumato.request_id", seen.request_id)
        if seen.problem is not None:
            span.set_attribute("error.type", seen.problem)


def _tracer() -> _Tracer | None:
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ModuleNotFoundError:
        return None
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        return None
    return _Tracer(trace.get_tracer("sfumato"))
