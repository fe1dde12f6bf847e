"""Worked examples for the OpenAPI document.

The tests send every request, to the demo's table and to a report on advertisements, and check every reply against its
schema.
"""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.service.schemas import Json

DIGEST = "sha256:6f0c2a7f2d3cd0c5f3a0f9d4d3f1a9f4f0a6de7f0f3b1c1c9a34bb7a9e2f5b10"

REQUESTS: Mapping[str, Json] = {
    "top_articles": {
        "summary": "The ten articles with most readers in EMEA",
        "value": {
            "type": "top_k",
            "table": "engagements",
            "by": "article",
            "measure": "members",
            "where": {"region": "emea"},
            "k": 10,
        },
    },
    "regions": {
        "summary": "Members by region in the last week of October",
        "value": {
            "type": "histogram",
            "table": "engagements",
            "by": "region",
            "measure": "members",
            "where": {"day": {"between": ["2026-10-24", "2026-10-30"]}},
        },
    },
    "all_members": {
        "summary": "All members",
        "value": {"type": "total", "table": "engagements", "measure": "members"},
    },
    "sql": {
        "summary": "A question in SQL",
        "value": {
            "sql": "SELECT job_title, COUNT(DISTINCT member_id) FROM engagements GROUP BY job_title "
            "ORDER BY 2 DESC LIMIT 5"
        },
    },
    "parameters": {
        "summary": "A question in SQL with parameters",
        "value": {
            "sql": "SELECT article, COUNT(DISTINCT member_id) FROM engagements "
            "WHERE region = :region AND day >= :since GROUP BY article ORDER BY 2 DESC LIMIT :k",
            "params": {"region": "emea", "since": {"date": "2026-10-24"}, "k": 3},
        },
    },
}

REPORT_REQUESTS: Mapping[str, Json] = {
    "by_day": {
        "summary": "Impressions and clicks of a campaign by day",
        "value": {
            "report": "ads",
            "statistics": ["impressions", "clicks"],
            "entity": {"campaign": "spring"},
            "start": "2026-10-01",
            "end": "2026-11-01",
            "granularity": "day",
            "options": ["actions"],
        },
    },
    "top_titles": {
        "summary": "The five job titles with most impressions, over half a year",
        "value": {
            "report": "ads",
            "statistics": ["impressions", "clicks"],
            "entity": {"campaign": "spring"},
            "attribute": "job_title",
            "start": "2026-03-31T21:00",
            "end": "2026-10-02T03:00",
            "top": 5,
        },
    },
    "account": {
        "summary": "All clicks of an account, by month",
        "value": {
            "report": "ads",
            "statistics": "clicks",
            "entity": {"account": "acme"},
            "start": "2026-01-01",
            "end": "2026-11-01",
            "granularity": "month",
        },
    },
}

KEY_REQUESTS: Mapping[str, Json] = {
    "anna": {"summary": "A key of the analyst anna", "value": {"analyst": "anna", "expires": "2026-12-31"}},
}
GRANT_REQUESTS: Mapping[str, Json] = {
    "board": {
        "summary": "300 units and 3 calls more until the budget resets",
        "value": {"account": "anna", "information": "300", "calls": "3", "reason": "the board meets"},
    },
}

_ASKED = {
    "request": {
        "type": "top_k",
        "table": "engagements",
        "measure": "members",
        "where": {"region": "emea"},
        "by": ["article"],
        "k": 10,
        "counts": True,
    },
    "sql": "SELECT article, members FROM engagements WHERE region = 'emea' GROUP BY article "
    "ORDER BY members DESC LIMIT 10",
}
_CHARGE = {"information": "21", "calls": "1"}
_LEFT = {"information": "2979", "calls": "29"}
_VISIBLE = {"half": 201, "most": 221, "above": "cutoff"}

ANSWER: Json = {
    "columns": {"article": "text", "members": "integer"},
    "rows": [{"article": "gdpr-guide", "members": 1240}, {"article": "cookie-free-ads-51", "members": 1187}],
    "stopped": False,
    "receipt": {
        "mechanism": "unknown_gumbel",
        "unit": "member_id",
        "charge": _CHARGE,
        "left": _LEFT,
        "resets": "2026-12-01",
        "error95": {"members": 27},
        "data_version": "daily 2026-11-16",
        "digest": DIGEST,
        "visible": _VISIBLE,
        "repeat": False,
        "pays_again": "2026-11-17",
    },
    "notes": [{"code": "small-groups-absent", "text": "groups below a noisy threshold are absent"}],
}

REPORT: Json = {
    "report": "ads",
    "entity": {"account": "acme", "campaign": "spring"},
    "start": "2026-03-31T21:00:00",
    "end": "2026-10-02T03:00:00",
    "complete_until": "2026-10-02T03:00:00",
    "granularity": "all",
    "columns": {
        "start": "timestamp",
        "end": "timestamp",
        "job_title": "text",
        "impressions": "integer",
        "clicks": "integer",
    },
    "rows": [
        {
            "start": "2026-03-31T21:00:00",
            "end": "2026-10-02T03:00:00",
            "job_title": "engineer",
            "impressions": 1377,
            "clicks": 93,
        },
        {
            "start": "2026-03-31T21:00:00",
            "end": "2026-10-02T03:00:00",
            "job_title": "nurse",
            "impressions": 41,
            "clicks": None,
        },
    ],
    "stopped": False,
    "receipt": {
        "mechanism": "canonical_laplace",
        "unit": "event",
        "charge": {"information": "0", "calls": "0"},
        "left": _LEFT,
        "resets": "2026-12-01",
        "error95": {"impressions": 7, "clicks": 6},
        "data_version": "seal 1",
        "digest": DIGEST,
        "repeat": True,
        "guarantee": {"epsilon": 45.0, "unit": "event"},
    },
    "notes": [
        {"code": "event-level", "text": "the guarantee is for one event; a person with many events is hidden less"},
        {"code": "small-counts-hidden", "text": "counts below 3 are not shown"},
        {
            "code": "chosen",
            "text": "numbers are shown that are large, by their noise too: error95 is wider for it",
        },
    ],
    "options": [],
    "zone": "America/New_York",
}

_MONTH = {"epsilon": 8.0, "delta": 1e-07, "wins": 0.9997}
_YEAR = {"epsilon": 34.36, "delta": 1e-06, "wins": 1.0}
_GROUPS = [
    {"people": 2, "epsilon": 18.13, "delta": 1e-07, "shown": 3.7e-08, "same_delta": 18.13},
    {"people": 10, "epsilon": 158.75, "delta": 1e-06, "shown": 1.3e-07, "same_delta": None},
]

GUARANTEE: Json = {
    "analyst": "anna",
    "accounts": [
        {
            "account": "analyst:anna",
            "mode": "enforce",
            "resets": "monthly",
            "limit": {"information": "320", "calls": "320"},
            "epsilon_per": "3/20",
            "delta_per": "1/10000000000",
            "bounds": [
                {"what": "top_ten", "charge": _CHARGE, "epsilon": 1.78, "delta": 1e-07, "wins": 0.8557},
                {"what": "period", "charge": {"information": "320", "calls": "320"}, **_MONTH},
                {"what": "year", "charge": {"information": "3840", "calls": "3840"}, **_YEAR},
            ],
            "groups": _GROUPS,
        }
    ],
    "reports": {"reading": {"epsilon": 2.0, "unit": "event"}},
    "sources": [
        {
            "tables": ["engagements"],
            "unit": "member_id",
            "views": [],
            "uncapped": [],
            "window": "month",
            "questions": {"names": ["analyst:anna", "table:engagements"], "period": _MONTH, "year": _YEAR},
            "releases": None,
            "reports": {
                "names": ["reading"],
                "period": {"epsilon": None, "delta": None, "wins": 1.0},
                "year": {"epsilon": None, "delta": None, "wins": 1.0},
            },
            "event_epsilon": 2.0,
            "event_delta": 0.0,
            "total": {
                "period": {"epsilon": None, "delta": None, "wins": 1.0},
                "year": {"epsilon": None, "delta": None, "wins": 1.0},
            },
            "unbounded": ["events"],
            "groups": [],
        }
    ],
}

_ACCOUNT: Json = {
    "account": "analyst:anna",
    "limit": {"information": "3000", "calls": "30"},
    "granted": {"information": "0", "calls": "0"},
    "spent": _CHARGE,
    "reserved": {"information": "0", "calls": "0"},
    "left": _LEFT,
    "resets": "2026-12-01",
}
_KEY: Json = {
    "id": "5f0c2a9be471",
    "prefix": "sfumato_Zk3x",
    "analyst": "anna",
    "role": "analyst",
    "created": "2026-11-16T08:30:00.000000+00:00",
    "expires": "2027-01-01T00:00:00.000000+00:00",
    "revoked": None,
    "state": "valid",
    "created_by": {"analyst": "omar", "key": "0b3a5c2f9d10"},
    "revoked_by": None,
}

_RELEASE: Json = {
    "digest": DIGEST,
    "job": "visits-2026-11",
    "at": "2026-11-16T08:30:00.000000+00:00",
    "budget": "public",
    "charges": {"release:public": {"information": "178", "calls": "1"}},
    "method": "pcr",
    "unit": "member_id",
    "guarantee": {
        "rho": "1/2",
        "delta": "1/1000000",
        "epsilon": 5.14,
        "epsilon_delta": "1/500000",
        "conversion": "optimal conversion of zCDP (Canonne, Kamath, Steinke 2020), rounded up",
    },
}

_VERIFICATION: Json = {
    "state": "running",
    "at": "2026-11-16T08:30:00.000000+00:00",
    "by": {"analyst": "omar", "key": "0b3a5c2f9d10"},
    "done": 0,
    "of": 812,
    "ended": None,
    "problems": [],
}

REPLIES: Mapping[str, Json] = {
    "Answer": ANSWER,
    "Report": REPORT,
    "ReportInfo": {
        "report": "ads",
        "statistics": ["impressions", "clicks", "conversions"],
        "attributes": {"job_title": ["dentist", "engineer", "nurse"]},
        "entities": ["account", "campaign", "creative"],
        "levels": ["3h", "day", "month", "quarter", "year"],
        "zone": "America/New_York",
        "guarantee": {"epsilon": 45.0, "unit": "event"},
        "min_count": 3,
        "options": ["monotone", "totals", "tree", "actions", "calendar"],
        "usual_options": [],
        "complete_until": "2026-11-15T06:00:00",
        "follows": {"clicks": "impressions", "conversions": "clicks"},
    },
    "EntityPage": {
        "rows": [
            {
                "level": "campaign",
                "name": "spring",
                "entity": {"account": "acme", "campaign": "spring"},
                "has_children": True,
            }
        ],
        "next": None,
        "listed": True,
    },
    "Estimate": {
        "mechanism": "unknown_gumbel",
        "charge": {"least": {"information": "1", "calls": "1"}, "worst": _CHARGE},
        "error95": {"members": 27},
        "visible": _VISIBLE,
        "left": _LEFT,
        "answers_left": 29,
        "notes": [{"code": "small-groups-absent", "text": "groups below a noisy threshold are absent"}],
    },
    "BudgetReport": {
        "analyst": "anna",
        "mode": "enforce",
        "resets": "2026-12-01",
        "accounts": [_ACCOUNT],
    },
    "Charges": {
        "rows": [
            {
                "at": "2026-11-16T08:30:00.000000+00:00",
                "digest": DIGEST,
                "account": "analyst:anna",
                "charge": _CHARGE,
                "state": "settled",
                **_ASKED,
                "reason": None,
            }
        ],
        "next": None,
    },
    "Questions": {
        "rows": [
            {
                "at": "2026-11-16T08:30:00.000000+00:00",
                "analyst": "anna",
                "state": "settled",
                **_ASKED,
                "charge": _CHARGE,
                "error95": {"members": 27},
                "digest": DIGEST,
                "recallable": True,
            }
        ],
        "next": None,
    },
    "Guarantee": GUARANTEE,
    "Me": {
        "analyst": "anna",
        "role": "analyst",
        "organisation": "acme",
        "budget": "partner",
        "tables": ["engagements"],
        "reports": ["ads"],
        "entities": {"account": ["acme"]},
        "where": "region = 'emea'",
        "rights": ["ask", "report", "estimate", "recall", "read"],
        "key": {"prefix": "sfumato_Zk3x", "expires": "2027-02-14T00:00:00.000000+00:00"},
        "zone": "UTC",
    },
    "Tables": {
        "rows": [
            {
                "table": "engagements",
                "unit": "member_id",
                "columns": [
                    {"name": "region", "type": "text", "domain": ["emea", "apac", "amer"], "max_groups": 1},
                    {"name": "article", "type": "text", "domain": "unknown", "max_groups": None},
                ],
                "measures": [{"name": "members", "counts": "units", "max_per_unit": 1}],
            }
        ]
    },
    "UsageReport": {
        "since": "2026-11-01",
        "until": "2026-11-16",
        "rows": [
            {
                "day": "2026-11-16",
                "analyst": "anna",
                "account": "analyst:anna",
                "period": "2026-11-01",
                "charge": _CHARGE,
            }
        ],
        "forecast": [
            {
                "budget": {"information": "3000", "calls": "30"},
                "days": [{"day": 1, "dry": {"information": 0, "calls": 0, "either": 0}, "of": 1}],
            }
        ],
        "notes": [
            {
                "code": "month-incomplete",
                "text": "the current month is not complete: the numbers of its later days can still rise",
            }
        ],
    },
    "AccountStanding": {
        **_ACCOUNT,
        "granted": {"information": "300", "calls": "3"},
        "left": {"information": "3279", "calls": "32"},
    },
    "Accounts": {"rows": [{**_ACCOUNT, "mode": "enforce", "dry": None}]},
    "PolicyReport": {
        "file": "6f0c2a7f2d3cd0c5f3a0f9d4d3f1a9f4f0a6de7f0f3b1c1c9a34bb7a9e2f5b10",
        "settings": {"budgets.partner.information": "3000", "analysts.anna.budget": "partner"},
        "pad_ms": 100,
        "checks": [
            {
                "setting": "reports.ads.table",
                "verdict": "doubtful",
                "text": "ads can be asked about too, without a cap: what all analysts ask adds to what this report "
                "tells; write tables.ads.cap",
            }
        ],
        "changed": {
            "at": "2026-11-16T08:30:00.000000+00:00",
            "user": "sfumato",
            "file": "6f0c2a7f2d3cd0c5f3a0f9d4d3f1a9f4f0a6de7f0f3b1c1c9a34bb7a9e2f5b10",
            "changes": [{"setting": "budgets.partner.information", "before": "1000", "after": "3000"}],
            "first_recorded": {},
        },
    },
    "LedgerState": {
        "id": "3f0c2a7f2d3cd0c5f3a0f9d4d3f1a9f4",
        "schema": 7,
        "rows": 812,
        "head": "6f0c2a7f2d3cd0c5f3a0f9d4d3f1a9f4f0a6de7f0f3b1c1c9a34bb7a9e2f5b10",
        "reservations": 0,
        "oldest": None,
        "fence": {"kind": "file", "rows": 812},
        "verification": {**_VERIFICATION, "state": "ended", "done": 812, "ended": "2026-11-16T08:30:04.000000+00:00"},
    },
    "VerificationInfo": _VERIFICATION,
    "Releases": {"rows": [_RELEASE], "next": None},
    "ReleaseInfo": {
        **_RELEASE,
        "statement": {
            "format": "sfumato-release/1",
            "method": "pcr",
            "unit": "member_id",
            "neighbours": "two tables, of which one has all rows of one more person",
            "guarantee": _RELEASE["guarantee"],
            "job": "visits-2026-11",
        },
    },
    "Keys": {"rows": [_KEY]},
    "KeyState": {
        **_KEY,
        "revoked": "2026-11-17T10:00:00.000000+00:00",
        "state": "revoked",
        "revoked_by": {"user": "sfumato"},
    },
    "NewKey": {**_KEY, "key": "sfumato_Zk3xT2eVZ0nqF8hW1uYb5sLr7cQp9dKj4mXa6gNv0wE"},
    "Health": {"status": "ok"},
    "Readiness": {"status": "ready", "checks": {"ledger": "ok", "engines": "ok"}},
}
