-- oncegate:oldest 39
-- Which call of an operation follows which earlier one, and how. The gate inserts the row in the transaction that records the
-- following call. The constraints decide between two calls that want to follow the same one. Programs before this version
-- record following calls without a row, so that two of them could resume one call: they may not run any more.
CREATE TABLE operation_follow (
    child          uuid NOT NULL,   -- the event of the call that follows
    parent         uuid NOT NULL,   -- the event of the earlier call
    kind           text NOT NULL,
    intent_hash    bytea NOT NULL,  -- what the child asks for: SHA-256 of its credential, its operation and its canonical payload
    parent_status  text NOT NULL,   -- the status of the parent's result at that moment; a parent without a settled result has none
    CONSTRAINT operation_follow_pkey PRIMARY KEY (child),
    CONSTRAINT operation_follow_once UNIQUE (parent, kind, intent_hash),
    CONSTRAINT operation_follow_kind CHECK (kind IN ('resumes', 'instead_of')),
    CONSTRAINT operation_follow_status CHECK (parent_status IN ('done', 'failed', 'partial')),
    CONSTRAINT operation_follow_hash_length CHECK (octet_length(intent_hash) = 32)
);
