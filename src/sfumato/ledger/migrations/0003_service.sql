-- What the service needs: who may ask over HTTP, which calls were made, and answers with their first receipts.

-- Keys that were handed out. Of the key itself only its hash is kept; `prefix` is for people to tell keys apart.
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    analyst TEXT NOT NULL,
    role TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT,
    revoked TEXT
);

-- Calls that carried an idempotency key: the hashes of the key and of the body, the request they began, and
-- whether that was a repeat, for nothing. An account's calls are numbered, because only the latest are kept.
CREATE TABLE calls (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    number BIGINT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL,
    free BIGINT NOT NULL,
    PRIMARY KEY (account, key)
);

CREATE UNIQUE INDEX calls_by_number ON calls (account, number);

-- What the moment added to an answer when it first left, and what it takes to show it again.
ALTER TABLE answers ADD COLUMN receipt TEXT NOT NULL DEFAULT '';

CREATE INDEX journal_by_time ON journal (at);
