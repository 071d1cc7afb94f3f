-- oncegate:oldest 22
-- What was called a moment ago, under which key, for sources that ask whether a call repeats another one under a new key.
-- A row is of use until it expires; calls that come later remove it.
CREATE TABLE recent_call (
    source_id   int NOT NULL,
    call_hash   bytea NOT NULL, -- SHA-256 of the credential, the operation and the canonical payload
    event_id    text NOT NULL,  -- the key of the call that came first
    expires_at  timestamptz NOT NULL,
    CONSTRAINT recent_call_pkey PRIMARY KEY (source_id, call_hash),
    CONSTRAINT recent_call_hash_length CHECK (octet_length(call_hash) = 32)
);
CREATE INDEX recent_call_expires_idx ON recent_call (expires_at);
