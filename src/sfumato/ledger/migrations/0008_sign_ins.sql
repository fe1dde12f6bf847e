-- Sign-ins to the pages of the service.

-- Of what the browser holds only the hash is kept. `key` is the id of the API key that it was begun with; it is
-- empty if the analyst came from the identity provider.
CREATE TABLE sign_ins (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    analyst TEXT NOT NULL,
    role TEXT NOT NULL,
    began TEXT NOT NULL,
    ends TEXT NOT NULL,
    ended TEXT
);
