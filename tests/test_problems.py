"""Problems: what outsiders see, what the owner sees, and the way back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sfumato.errors import (
    ConfigError,
    Conflict,
    InvalidArgument,
    LedgerSetBack,
    NotFound,
    NotSupported,
    SfumatoError,
    TableNotFound,
)
from sfumato.problems import COMMAND_LINE_TYPES, PROBLEM_TYPES, problem, problem_type, read_problem


def test_a_configuration_never_travels_over_http() -> None:
    error = ConfigError("tables.t.max_k", "must be at least 1")
    assert problem_type(error).name == "failed"
    assert "max_k" not in problem(error).detail
    assert problem(error, to_owner=True).to_dict() == {
        "type": "/problems/configuration",
        "title": "Configuration",
        "status": 500,
        "detail": "tables.t.max_k: must be at least 1",
        "argument": "tables.t.max_k",
    }


@pytest.mark.parametrize("error", [NotFound("there is no analyst 'ana'"), LedgerSetBack("a copy was restored")])
def test_only_the_owner_gets_the_words_of_every_error(error: Exception) -> None:
    seen, own = problem(error), problem(error, to_owner=True)
    assert own.detail == str(error) != seen.detail
    assert replace(own, detail="") == replace(seen, detail="")


ERRORS = (
    InvalidArgument("rows", "must be at least 1"),
    InvalidArgument("level", "must be one of day, week", nearest="day"),
    NotSupported("members has no column 'artcle'", "group_by", nearest="article"),
    NotSupported("this question has no private form"),
    TableNotFound("there is no table 'engagement'", "engagement", nearest="engagements"),
    Conflict("used before", reused=True),
)


@pytest.mark.parametrize("error", ERRORS)
def test_a_problem_is_read_back(error: SfumatoError) -> None:
    found = read_problem(problem(error).to_dict())
    assert (type(found), str(found), found.nearest) == (type(error), str(error), error.nearest)
    for field in ("argument", "field", "problem"):
        assert getattr(found, field, None) == getattr(error, field, None)


def test_names_are_unique_and_those_of_the_command_line_are_not_read() -> None:
    names = [kind.name for kind in (*PROBLEM_TYPES, *COMMAND_LINE_TYPES)]
    assert len({*names}) == len(names)
    for kind in COMMAND_LINE_TYPES:
        error = read_problem({"type": f"/problems/{kind.name}", "status": kind.status, "detail": "why"})
        assert type(error).__name__ == ("Refused" if kind.status < 500 else "Failed")
