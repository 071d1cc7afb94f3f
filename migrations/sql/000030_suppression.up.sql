-- oncegate:oldest 22
-- Addresses to which no message is sent: they bounced, complained or unsubscribed. A program of before sends to them.
CREATE TABLE suppression (
    id           uuid NOT NULL,          -- in the order of creation
    digest       bytea NOT NULL,         -- of the address in its normal form
    secret_id    uuid,                   -- the secret under which the digest is an HMAC; NULL is a plain hash
    target       text NOT NULL,          -- the name of the target that it holds for; '' is every target
    address      bytea,                  -- sealed like a body; NULL if only the digest is kept
    key_id       int,
    reason       text NOT NULL,
    source_event uuid,                   -- the event that reported it; NULL if a person did
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,            -- NULL is never
    CONSTRAINT suppression_pkey PRIMARY KEY (id),
    CONSTRAINT suppression_digest_target_key UNIQUE (digest, target),
    CONSTRAINT suppression_secret_fkey FOREIGN KEY (secret_id) REFERENCES order_secret (id),
    CONSTRAINT suppression_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT suppression_address_length CHECK (octet_length(address) <= 1024),
    CONSTRAINT suppression_target_length CHECK (octet_length(target) <= 63),
    CONSTRAINT suppression_reason CHECK (reason IN ('bounce', 'complaint', 'unsubscribe', 'manual'))
);
-- For what is removed once it has expired.
CREATE INDEX suppression_expires_idx ON suppression (expires_at) WHERE expires_at IS NOT NULL;
-- For whether a secret that cannot be opened matters.
CREATE INDEX suppression_secret_idx ON suppression (secret_id) WHERE secret_id IS NOT NULL;
