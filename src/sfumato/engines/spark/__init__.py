"""Spark: tables of a catalog and Parquet files, by a session of its own or by Spark Connect."""

from sfumato.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
