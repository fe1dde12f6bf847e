-- What the chain of the journal did not cover: what units meant, API keys, and calls with an idempotency key.

-- What a unit and a call meant when a row moved them. Empty in rows that are older.
ALTER TABLE journal ADD COLUMN prices TEXT NOT NULL DEFAULT '';

-- The sum of the hashes of all rows of `calls`. Repeats are free and write calls, so these have no rows in the journal.
ALTER TABLE ledger ADD COLUMN calls TEXT NOT NULL DEFAULT '0';

CREATE INDEX journal_of_policies ON journal (sequence) WHERE kind = 'policy';
