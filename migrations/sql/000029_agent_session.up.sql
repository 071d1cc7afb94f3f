-- oncegate:oldest 22
-- Sessions that engines open for agents: who holds the token makes calls for one run, until it expires. The token is stored
-- nowhere, only the SHA-256 of its 256 random bits.
CREATE TABLE agent_session (
    id          uuid NOT NULL,
    digest      bytea NOT NULL,
    source_id   int NOT NULL,
    credential  text NOT NULL,
    run         text NOT NULL,
    operations  text[],           -- NULL: all that the credential may call
    new_keys    int NOT NULL DEFAULT 0, -- a minute; 0: no limit of its own
    contract    text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    revoked_at  timestamptz,
    CONSTRAINT agent_session_pkey PRIMARY KEY (id),
    CONSTRAINT agent_session_digest_key UNIQUE (digest),
    CONSTRAINT agent_session_source_fkey FOREIGN KEY (source_id) REFERENCES source (id),
    CONSTRAINT agent_session_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT agent_session_run_given CHECK (run <> ''),
    CONSTRAINT agent_session_ends_later CHECK (expires_at > created_at)
);

-- For prune, which removes them from the front.
CREATE INDEX agent_session_expiry_idx ON agent_session (expires_at);
