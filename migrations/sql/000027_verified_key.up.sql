-- oncegate:oldest 22
-- The keys and certificates of senders that have verified something, so that a process which starts has them and need not
-- fetch them beside forgeries that name others.
CREATE TABLE verified_key (
    digest      bytea NOT NULL, -- SHA-256 of the address and of what is posted to it
    url         text NOT NULL,  -- for people
    document    bytea NOT NULL,
    fetched_at  timestamptz NOT NULL,
    verified_at timestamptz NOT NULL, -- when it last verified something, to a day
    CONSTRAINT verified_key_pkey PRIMARY KEY (digest),
    CONSTRAINT verified_key_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT verified_key_document_length CHECK (octet_length(document) BETWEEN 1 AND 1048576)
);
