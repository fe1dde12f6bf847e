"""The SDK: `Client` and `AsyncClient` ask a service over HTTP; no engine is needed here, and none is imported.

    import sfumato as sf

    with sf.Client("http://127.0.0.1:8080", key="sfumato_...") as client:
        answer = client.ask("SELECT article, members FROM engagements GROUP BY article LIMIT 10")

`sfumato.client.dbapi` is a DB-API 2.0 driver over the same calls, and `sfumato.client.alchemy` a SQLAlchemy dialect.
"""

from sfumato.client.async_client import AsyncClient
from sfumato.client.client import Client

__all__ = ["AsyncClient", "Client"]
