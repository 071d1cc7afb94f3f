-- One row for each running process. What is only safe if all processes know something,
-- such as a new sealing key, asks here first. A process of an earlier version has no
-- row. The row is written every few seconds and removed when the process stops.
CREATE TABLE node (
    id               uuid NOT NULL,
    name             text NOT NULL,
    version          text NOT NULL,
    roles            text[] NOT NULL,
    configuration    text NOT NULL, -- a fingerprint: nothing of the configuration itself
    key_ids          int[] NOT NULL,
    key_fingerprints text[] NOT NULL, -- in the order of key_ids
    active_key       int,
    active_since     timestamptz, -- when it last changed; NULL if it never did
    started_at       timestamptz NOT NULL,
    heartbeat        timestamptz NOT NULL,
    CONSTRAINT node_pkey PRIMARY KEY (id),
    CONSTRAINT node_keys CHECK (cardinality(key_ids) = cardinality(key_fingerprints))
) WITH (fillfactor = 50);
