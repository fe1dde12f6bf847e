-- Answers as they first left, so that a repeat is the same bytes whatever the code has become.

CREATE TABLE answers (
    account TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (account, digest)
);
