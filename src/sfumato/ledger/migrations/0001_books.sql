-- The books: an append-only journal, and what follows from it.
-- Amounts are exact numbers as text; moments are UTC in ISO 8601. Both stores read this file.

CREATE TABLE ledger (
    id TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    head TEXT NOT NULL
);

-- Every movement of every account. Each row's hash covers its own fields and the hash before it.
CREATE TABLE journal (
    sequence BIGINT PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    account TEXT NOT NULL,
    period TEXT NOT NULL,
    analyst TEXT NOT NULL,
    digest TEXT NOT NULL,
    reserved TEXT NOT NULL,
    spent TEXT NOT NULL,
    granted TEXT NOT NULL,
    note TEXT NOT NULL,
    hash TEXT NOT NULL
);

CREATE INDEX journal_by_analyst ON journal (analyst, sequence);

-- The sum of the journal, by account and period.
CREATE TABLE balances (
    account TEXT NOT NULL,
    period TEXT NOT NULL,
    prices TEXT NOT NULL,
    reserved TEXT NOT NULL,
    spent TEXT NOT NULL,
    granted TEXT NOT NULL,
    PRIMARY KEY (account, period)
);

-- One noisy ranking or histogram: its nonce from the first reservation on, its rows once they are computed.
CREATE TABLE atoms (
    atom TEXT PRIMARY KEY,
    nonce TEXT NOT NULL,
    payload TEXT
);

-- Which steps of an atom an account has paid for.
CREATE TABLE paid (
    account TEXT NOT NULL,
    atom TEXT NOT NULL,
    steps TEXT NOT NULL,
    PRIMARY KEY (account, atom)
);

-- Requests that were reserved and not settled yet, with all that is needed to run them again.
CREATE TABLE holds (
    account TEXT NOT NULL,
    digest TEXT NOT NULL,
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    atom TEXT NOT NULL,
    epoch TEXT NOT NULL,
    version TEXT NOT NULL,
    request TEXT NOT NULL,
    parts TEXT NOT NULL,
    PRIMARY KEY (account, digest)
);
