"""`sfumato.toml`: one file, strict and typed.

`settings` has the records, `read` makes them from TOML, `checks` follows the names from one section to another. An
unknown key is an error that names the nearest known one. `SFUMATO_*` environment variables win over the file
(`SFUMATO_LEDGER__URL` sets `[ledger] url`). Relative paths start at the file's own folder, which `Config.folder` keeps
for the sources of tables. Reading the file opens no table.

A new setting is a field of its record in `settings` and its line in `read` (for reports, in `reports`). The settings of
an engine are in its row of `engines`, and the stores of the ledger are rows of `stores`.
"""

from sfumato.config.read import load_config, read_config, read_fence
from sfumato.config.rights import RIGHTS, Right, sort_roles
from sfumato.config.settings import (
    Analyst,
    AttributeSettings,
    Budget,
    ColumnSettings,
    Config,
    ConsoleSettings,
    EngineSettings,
    LedgerSettings,
    Oidc,
    PublicSettings,
    Reference,
    ReportSettings,
    Role,
    ServiceSettings,
    StatisticSettings,
    TableSettings,
    Version,
)

__all__ = [
    "RIGHTS",
    "Analyst",
    "AttributeSettings",
    "Budget",
    "ColumnSettings",
    "Config",
    "ConsoleSettings",
    "EngineSettings",
    "LedgerSettings",
    "Oidc",
    "PublicSettings",
    "Reference",
    "ReportSettings",
    "Right",
    "Role",
    "ServiceSettings",
    "StatisticSettings",
    "TableSettings",
    "Version",
    "load_config",
    "read_config",
    "read_fence",
    "sort_roles",
]
