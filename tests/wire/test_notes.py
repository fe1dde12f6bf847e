"""Notes: a code for programs, a text for people, and texts of earlier versions read back to their codes."""

from __future__ import annotations

import pytest

from sfumato.accounting import NOTHING
from sfumato.ledger import Settled
from sfumato.wire import Note, StoredAnswer, note
from sfumato.wire import notes as codes
from sfumato.wire.notes import TEXTS, read_note

EARLIER = {
    "groups below a noisy threshold are absent": codes.SMALL_GROUPS_ABSENT,
    "groups close to the threshold are there because their noise was high, and so are their counts": (
        codes.NEAR_THRESHOLD
    ),
    "the first 3 of 12 groups": codes.FIRST_GROUPS,
    "at most 5 a person and group are counted": codes.CAPPED,
    "this budget is tracked and not enforced: what is left may be below zero": codes.TRACKED,
}


@pytest.mark.parametrize(("text", "code"), EARLIER.items())
def test_a_text_that_was_stored_has_its_code(text: str, code: str) -> None:
    assert read_note(text) == Note(code, text)


def test_a_text_that_is_not_known_is_kept() -> None:
    assert read_note("something else") == Note(codes.OTHER, "something else")


@pytest.mark.parametrize("code", TEXTS)
def test_every_code_has_a_text(code: str) -> None:
    fields = "shown groups tau events until text least option meaning options since levels most columns limit"
    fields += " column low high step values"
    values = dict.fromkeys(fields.split(), 7)
    assert note(code, **values).code == code
    assert "{" not in note(code, **values).text


def test_a_stored_answer_keeps_its_texts_and_is_served_with_codes() -> None:
    body = (
        '{"columns":{"n":"integer"},"rows":[{"n":4}],"stopped":false,"receipt":{"mechanism":"known_laplace",'
        '"unit":"u","error95":{"n":3},"data_version":"v","digest":"sha256:00"},"notes":'
        '["at most 5 a person and group are counted",{"code":"tracked","text":"t"}]}'
    )
    stored = StoredAnswer.from_json(body)
    assert stored.to_json().decode() == body
    answer = stored.complete(Settled(body, NOTHING, NOTHING, None, repeat=True))
    assert [each.code for each in answer.notes] == [codes.CAPPED, codes.TRACKED]
