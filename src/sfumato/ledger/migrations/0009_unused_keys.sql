-- Which API keys were made and never used.

-- A row from the making of a key to its first use. Nothing follows from it, so the journal does not cover it. Keys that
-- are older have none: whether they were used is not known.
CREATE TABLE unused_keys (
    key TEXT PRIMARY KEY
);
