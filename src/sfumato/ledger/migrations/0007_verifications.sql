-- Checks of the whole ledger that run as jobs, for owners and auditors to see in every worker.

-- One row per check: who began it, its last sign of life, how far it is, and what it has found. It says what was seen at
-- that moment, and nothing else follows from it: the journal does not cover it.
CREATE TABLE verifications (
    number BIGINT PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    seen TEXT NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    ended TEXT,
    problems TEXT NOT NULL
);

CREATE INDEX journal_of_keys ON journal (sequence) WHERE kind = 'key';
