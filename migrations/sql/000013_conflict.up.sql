-- Payloads that were acknowledged under the id of an event that was recorded with another payload. Each is kept until
-- the body horizon of its source's class, so that nothing that was acknowledged is lost: a person can compare it with
-- the event and admit it as an event of its own. payload_sha256 decides which payloads are different: it is the hash of
-- the canonical form, or of the bytes where there is none.
CREATE TABLE conflict (
    id               uuid NOT NULL,
    event_id         uuid NOT NULL,
    source_id        int NOT NULL,
    payload_sha256   bytea NOT NULL,
    sha256           bytea NOT NULL,
    paths            text[] NOT NULL,
    type             text NOT NULL,
    occurred_at      timestamptz,
    sequence_key     bytea NOT NULL,
    sequence_number  bytea NOT NULL,
    id_unsigned      boolean NOT NULL,
    deliveries       int NOT NULL DEFAULT 1,
    first_seen_at    timestamptz NOT NULL,
    last_seen_at     timestamptz NOT NULL,
    admitted_at      timestamptz,
    admitted_as      uuid,
    key_id           int,
    headers          bytea NOT NULL,
    body             bytea NOT NULL,
    CONSTRAINT conflict_pkey PRIMARY KEY (id),
    CONSTRAINT conflict_payload_key UNIQUE (event_id, payload_sha256),
    CONSTRAINT conflict_type_length CHECK (octet_length(type) <= 255),
    CONSTRAINT conflict_sha256_length CHECK (octet_length(sha256) = 32 AND octet_length(payload_sha256) = 32),
    CONSTRAINT conflict_admitted CHECK ((admitted_at IS NULL) = (admitted_as IS NULL))
);

-- Prune takes the payloads of each source that were seen last before the horizon.
CREATE INDEX conflict_source_idx ON conflict (source_id, last_seen_at);
