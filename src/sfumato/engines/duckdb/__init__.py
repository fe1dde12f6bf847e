"""DuckDB: Parquet and CSV files, and the tables and views of a DuckDB database, in a sandbox.

The engine lists its files when it is opened. Then it gives up every other access, in the order that DuckDB needs: views
over the listed files, `allowed_paths`, `enable_external_access = false`, `lock_configuration`. After that a query can
reach the listed files and the attached database, which is read-only, and nothing else. `allowed_paths` allows writing
as well as reading, so there is one more check: only a single SELECT is ever executed. Data frames that the engine was
given are registered with its connections, and read by releases alone.

A file that appears under a glob later is seen by the next engine that is opened, not by this one.
"""

from sfumato.engines.duckdb.engine import DuckDBEngine

__all__ = ["DuckDBEngine"]
