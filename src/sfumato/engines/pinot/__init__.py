"""Apache Pinot: OFFLINE tables of a cluster, asked over HTTP."""

from sfumato.engines.pinot.engine import PinotEngine

__all__ = ["PinotEngine"]
