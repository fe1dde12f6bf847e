-- What reports have drawn: each cell once in a version, and served from then on.

-- What is sealed: one total or one breakdown, of one entity, in one atomic range. `place` is the hash of the rest.
CREATE TABLE places (
    place TEXT PRIMARY KEY,
    report TEXT NOT NULL,
    statistic TEXT NOT NULL,
    entity TEXT NOT NULL,
    attribute TEXT NOT NULL,
    level TEXT NOT NULL,
    since TEXT NOT NULL,
    until TEXT NOT NULL
);

CREATE INDEX places_by_report ON places (report);

-- The seals of a place: the latest is the current one, and pending until it has cells. `version` is how often the place
-- counts as drawn once this one is: less than its number where seals were given up undrawn. `opened` is a journal row.
CREATE TABLE seals (
    place TEXT NOT NULL,
    number BIGINT NOT NULL,
    version BIGINT NOT NULL,
    definition TEXT NOT NULL,
    nonce TEXT NOT NULL,
    opened BIGINT NOT NULL,
    PRIMARY KEY (place, number)
);

CREATE INDEX seals_by_opened ON seals (opened);

-- Noisy counts as they were drawn, in the order of their domain. `stored` is a journal row: a domain that has grown has
-- its new values in another row.
CREATE TABLE cells (
    place TEXT NOT NULL,
    number BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    domain TEXT NOT NULL,
    counts TEXT NOT NULL,
    PRIMARY KEY (place, number, stored)
);

CREATE INDEX cells_by_stored ON cells (stored);

-- Lists of values, which many cells share, each under its hash.
CREATE TABLE domains (
    digest TEXT PRIMARY KEY,
    listed TEXT NOT NULL
);

CREATE INDEX journal_of_restores ON journal (sequence) WHERE kind = 'restore';

-- Calls that wait for one answer: one of them pays.
CREATE INDEX calls_by_digest ON calls (account, digest);
