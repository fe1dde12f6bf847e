"""What travels: answers, reports, estimates, budgets, charges, guarantees, tables, usage and problems.

Each record is declared once, as a typed class. Its JSON, its parsing, its JSON schema and its entry in OpenAPI follow
from the declaration (docs/adr/0008-msgspec.md). Everything in a record may leave.
"""

from sfumato.wire.answer import Answer, Receipt, ReceiptCore, ReportPromise, StoredAnswer, Visible
from sfumato.wire.base import Record, schemas, to_json
from sfumato.wire.budget import (
    AccountStanding,
    BudgetReport,
    ChargeRange,
    ChargeRow,
    Charges,
    Estimate,
    PolicyChangeRow,
    PolicyHistory,
    QuestionRow,
    Questions,
    SettingChangeRow,
)
from sfumato.wire.guarantee import Guarantee
from sfumato.wire.keys import ActorInfo, KeyRow, Keys, KeyState, NewKey
from sfumato.wire.me import KeyInfo, Me
from sfumato.wire.notes import Note, note
from sfumato.wire.oversight import (
    AccountRow,
    Accounts,
    CheckRow,
    FenceState,
    LedgerState,
    PolicyReport,
    ReleaseInfo,
    ReleaseRow,
    Releases,
    VerificationInfo,
)
from sfumato.wire.problem import Problem
from sfumato.wire.report import EXACT, Report
from sfumato.wire.tables import (
    ColumnBounds,
    ColumnInfo,
    EntityPage,
    EntityRow,
    MeasureInfo,
    PublicColumn,
    PublicRow,
    ReportInfo,
    ReportRow,
    TableRow,
    Tables,
)
from sfumato.wire.usage import BudgetForecast, DryCounts, DryDay, SpendingReport, SpentRow, UsageReport

__all__ = [
    "EXACT",
    "AccountRow",
    "AccountStanding",
    "Accounts",
    "ActorInfo",
    "Answer",
    "BudgetForecast",
    "BudgetReport",
    "ChargeRange",
    "ChargeRow",
    "Charges",
    "CheckRow",
    "ColumnBounds",
    "ColumnInfo",
    "DryCounts",
    "DryDay",
    "EntityPage",
    "EntityRow",
    "Estimate",
    "FenceState",
    "Guarantee",
    "KeyInfo",
    "KeyRow",
    "KeyState",
    "Keys",
    "LedgerState",
    "Me",
    "MeasureInfo",
    "NewKey",
    "Note",
    "PolicyChangeRow",
    "PolicyHistory",
    "PolicyReport",
    "Problem",
    "PublicColumn",
    "PublicRow",
    "QuestionRow",
    "Questions",
    "Receipt",
    "ReceiptCore",
    "Record",
    "ReleaseInfo",
    "ReleaseRow",
    "Releases",
    "Report",
    "ReportInfo",
    "ReportPromise",
    "ReportRow",
    "SettingChangeRow",
    "SpendingReport",
    "SpentRow",
    "StoredAnswer",
    "TableRow",
    "Tables",
    "UsageReport",
    "VerificationInfo",
    "Visible",
    "note",
    "schemas",
    "to_json",
]
