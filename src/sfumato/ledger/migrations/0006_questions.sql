-- What was asked: the request of every charge, in its one form per meaning, and the same as SQL.

-- Stored with the first reservation of an account. The journal holds its hash. Charges of earlier schemas have none.
CREATE TABLE questions (
    account TEXT NOT NULL,
    digest TEXT NOT NULL,
    request TEXT NOT NULL,
    sql TEXT NOT NULL,
    PRIMARY KEY (account, digest)
);
