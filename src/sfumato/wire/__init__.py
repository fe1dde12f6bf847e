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
    KeyRow,
    PolicyChangeRow,
    PolicyHistory,
    SettingChangeRow,
)
from sfumato.wire.guarantee import Guarantee
from sfumato.wire.me import Me
from sfumato.wire.notes import Note, note
from sfumato.wire.problem import Problem
from sfumato.wire.report import EXACT, Report
from sfumato.wire.tables import ColumnInfo, MeasureInfo, ReportRow, TableRow, Tables
from sfumato.wire.usage import BudgetForecast, DryCounts, DryDay, SpendingReport, SpentRow, UsageReport

__all__ = [
    "EXACT",
    "AccountStanding",
    "Answer",
    "BudgetForecast",
    "BudgetReport",
    "ChargeRange",
    "ChargeRow",
    "Charges",
    "ColumnInfo",
    "DryCounts",
    "DryDay",
    "Estimate",
    "Guarantee",
    "KeyRow",
    "Me",
    "MeasureInfo",
    "Note",
    "PolicyChangeRow",
    "PolicyHistory",
    "Problem",
    "Receipt",
    "ReceiptCore",
    "Record",
    "Report",
    "ReportPromise",
    "ReportRow",
    "SettingChangeRow",
    "SpendingReport",
    "SpentRow",
    "StoredAnswer",
    "TableRow",
    "Tables",
    "UsageReport",
    "Visible",
    "note",
    "schemas",
    "to_json",
]
