-- oncegate:oldest 22
-- Requests of the API that came under an Idempotency-Key, with how they ended, so that one that is made again happens once.
-- Neither the key nor the request is kept, only their hashes.
CREATE TABLE api_request (
    key_hash     bytea NOT NULL,       -- SHA-256 of who asked and of their key
    request_hash bytea NOT NULL,       -- SHA-256 of the key, the operation and the request
    lease        uuid NOT NULL,        -- of whoever carries it out: nobody else says how it ended
    actor        text NOT NULL,
    operation    text NOT NULL,
    begun_at     timestamptz NOT NULL,
    lease_until  timestamptz NOT NULL, -- until then it is under way, if it has not ended
    ended_at     timestamptz,          -- NULL: nobody knows that it has
    answer       bytea,                -- NULL of what has ended: the answer held a secret
    expires_at   timestamptz NOT NULL,
    CONSTRAINT api_request_pkey PRIMARY KEY (key_hash),
    CONSTRAINT api_request_hash_length CHECK (octet_length(key_hash) = 32 AND octet_length(request_hash) = 32)
);

-- For prune, which removes them from the front.
CREATE INDEX api_request_expiry_idx ON api_request (expires_at);
