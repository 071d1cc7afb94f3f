-- Every table of Oncegate in its final shape. Names are unqualified: the
-- connection's search_path names the schema.
--
-- There are no foreign keys between the tables that a delivery writes: each
-- would lock the one row of its source or route for every delivery, and prune
-- removes bodies, effects and events at different times on purpose.

CREATE TABLE source (
    id          int GENERATED ALWAYS AS IDENTITY,
    name        text NOT NULL,
    provider    text NOT NULL,
    class       text NOT NULL,
    tenant      text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT source_pkey PRIMARY KEY (id),
    CONSTRAINT source_name_key UNIQUE (name)
);

CREATE TABLE route (
    id          int GENERATED ALWAYS AS IDENTITY,
    source_id   int NOT NULL,
    name        text NOT NULL,
    version     int NOT NULL DEFAULT 1,
    target      text NOT NULL,
    kind        text NOT NULL,
    digest      bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT route_pkey PRIMARY KEY (id),
    CONSTRAINT route_name_key UNIQUE (source_id, name),
    CONSTRAINT route_source_fkey FOREIGN KEY (source_id) REFERENCES source (id)
);

-- The gate. UNIQUE (source_id, event_id) decides what is a first delivery and
-- what is a duplicate; nothing else does. Never partition it by time: a time
-- column in the key would end deduplication. fillfactor leaves room for the
-- duplicate counter's HOT updates.
CREATE TABLE inbox_event (
    id                uuid NOT NULL,
    source_id         int NOT NULL,
    event_id          text NOT NULL,
    type              text NOT NULL,
    body_sha256       bytea NOT NULL,
    canonical_sha256  bytea,
    occurred_at       timestamptz,
    received_at       timestamptz NOT NULL,
    admission         text NOT NULL,
    admission_detail  text,
    class             text NOT NULL,
    body_id           uuid NOT NULL,
    item              int NOT NULL,
    body_offset       int NOT NULL,
    body_length       int NOT NULL,
    id_unsigned       boolean NOT NULL,
    suspected_replay  boolean NOT NULL,
    deliveries        int NOT NULL DEFAULT 1,
    last_delivery_at  timestamptz,
    conflicts         int NOT NULL DEFAULT 0,
    conflict_at       timestamptz,
    conflict_sha256   bytea,
    conflict_paths    text[],
    parent            uuid,
    traceparent       text,
    CONSTRAINT inbox_event_pkey PRIMARY KEY (id),
    CONSTRAINT inbox_event_key UNIQUE (source_id, event_id),
    CONSTRAINT inbox_event_event_id_length CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    CONSTRAINT inbox_event_type_length CHECK (octet_length(type) <= 255),
    CONSTRAINT inbox_event_body_sha256_length CHECK (octet_length(body_sha256) = 32),
    CONSTRAINT inbox_event_admission CHECK (admission IN ('ok', 'unusable', 'beyond_retention', 'unrouted'))
) WITH (fillfactor = 90);

-- Best effort search for the same body under another id, where the provider
-- does not sign its id.
CREATE INDEX inbox_event_replay_idx ON inbox_event (source_id, body_sha256) WHERE id_unsigned;
CREATE INDEX inbox_event_dead_idx ON inbox_event (id) WHERE admission IN ('unusable', 'beyond_retention');

-- One row a delivery: the exact bytes. By class, then by day of the v7 id;
-- there is no default partition, so a missing one is seen (23514) and made.
CREATE TABLE inbox_body (
    class    text NOT NULL,
    id       uuid NOT NULL,
    key_id   int,
    headers  bytea NOT NULL,
    body     bytea NOT NULL,
    CONSTRAINT inbox_body_pkey PRIMARY KEY (class, id)
) PARTITION BY LIST (class);

-- lz4 is worth 28 % of insert speed here, but not every PostgreSQL has it.
DO $$
BEGIN
    ALTER TABLE inbox_body ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    NULL;
END $$;

-- Bodies still needed when their day is dropped.
CREATE TABLE inbox_body_kept PARTITION OF inbox_body FOR VALUES IN ('kept');

CREATE TABLE effect (
    id                 uuid NOT NULL,
    event_id           uuid NOT NULL,
    route_id           int NOT NULL,
    item               int NOT NULL DEFAULT 0,
    state              text NOT NULL,
    key_hash           bytea,
    idempotency_key    text NOT NULL,
    sequence_key_hash  bytea,
    sequence_number    numeric,
    lease_token        uuid,
    lease_until        timestamptz,
    send_started_at    timestamptz,
    attempts           int NOT NULL DEFAULT 0,
    next_at            timestamptz,
    job_id             bigint,
    reason             text,
    rearms             int NOT NULL DEFAULT 0,
    rearmed_at         timestamptz,
    unfinished         boolean NOT NULL DEFAULT false,
    version            int NOT NULL DEFAULT 1,
    route_version      int NOT NULL,
    rendered           bytea,
    rendered_key_id    int,
    last_code          text,
    result             bytea,
    result_key_id      int,
    finished_at        timestamptz,
    CONSTRAINT effect_pkey PRIMARY KEY (id),
    CONSTRAINT effect_event_route_item_key UNIQUE (event_id, route_id, item),
    CONSTRAINT effect_state CHECK (state IN ('pending', 'claimed', 'retry', 'held', 'done', 'dead',
        'indeterminate', 'superseded', 'skipped', 'duplicate')),
    CONSTRAINT effect_claimed_lease CHECK ((state = 'claimed') = (lease_token IS NOT NULL)),
    CONSTRAINT effect_lease CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT effect_finished CHECK ((finished_at IS NOT NULL) = (state IN ('done', 'superseded', 'skipped', 'duplicate'))),
    CONSTRAINT effect_due CHECK (next_at IS NOT NULL OR state NOT IN ('pending', 'claimed', 'retry')),
    CONSTRAINT effect_at_rest CHECK (next_at IS NULL OR state IN ('pending', 'claimed', 'retry', 'held')),
    CONSTRAINT effect_reason CHECK (reason IS NOT NULL OR state NOT IN ('dead', 'indeterminate', 'skipped'))
) WITH (fillfactor = 80);

-- What the sweeper walks: a claimed effect's next_at is the end of its lease.
CREATE INDEX effect_due_idx ON effect (next_at, id) WHERE next_at IS NOT NULL;
CREATE INDEX effect_rest_idx ON effect (route_id, id) WHERE state IN ('dead', 'indeterminate');
CREATE INDEX effect_sequence_idx ON effect (route_id, sequence_key_hash, sequence_number, id)
    WHERE sequence_key_hash IS NOT NULL;

CREATE TABLE effect_attempt (
    effect_id    uuid NOT NULL,
    attempt      int NOT NULL,
    version      int NOT NULL,
    trigger      text NOT NULL,
    node         text NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz NOT NULL,
    outcome      text NOT NULL,
    code         text,
    excerpt      text,
    CONSTRAINT effect_attempt_pkey PRIMARY KEY (effect_id, version, attempt),
    CONSTRAINT effect_attempt_trigger CHECK (trigger IN ('initial', 'automatic', 'rearm', 'replay', 'manual', 'sweep')),
    CONSTRAINT effect_attempt_outcome CHECK (outcome IN ('done', 'retry', 'dead', 'indeterminate', 'skipped', 'lost')),
    CONSTRAINT effect_attempt_excerpt_length CHECK (octet_length(excerpt) <= 2048)
);

CREATE TABLE effect_key (
    route_id     int NOT NULL,
    key_hash     bytea NOT NULL,
    effect_id    uuid NOT NULL,
    received_at  timestamptz NOT NULL,
    expires_at   timestamptz,
    CONSTRAINT effect_key_pkey PRIMARY KEY (route_id, key_hash),
    CONSTRAINT effect_key_hash_length CHECK (octet_length(key_hash) = 32)
);
CREATE INDEX effect_key_expires_idx ON effect_key (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX effect_key_effect_idx ON effect_key (effect_id);

CREATE TABLE operation_result (
    event_id     uuid NOT NULL,
    status       text NOT NULL,
    key_id       int,
    document     bytea NOT NULL,
    rendered_at  timestamptz NOT NULL,
    CONSTRAINT operation_result_pkey PRIMARY KEY (event_id),
    CONSTRAINT operation_result_status CHECK (status IN ('done', 'failed', 'partial', 'indeterminate'))
);

CREATE TABLE stream (
    id           bigint GENERATED ALWAYS AS IDENTITY,
    route_id     int NOT NULL,
    key_hash     bytea NOT NULL,
    key_label    text,
    applied      numeric,
    in_flight    uuid,
    gap_since    timestamptz,
    blocked_by   uuid,
    started_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stream_pkey PRIMARY KEY (id),
    CONSTRAINT stream_key UNIQUE (route_id, key_hash),
    CONSTRAINT stream_key_hash_length CHECK (octet_length(key_hash) = 32)
) WITH (fillfactor = 70);
CREATE INDEX stream_gap_idx ON stream (gap_since) WHERE gap_since IS NOT NULL;
CREATE INDEX stream_blocked_idx ON stream (route_id, id) WHERE blocked_by IS NOT NULL;

CREATE TABLE outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    source      text NOT NULL,
    event_id    text NOT NULL,
    type        text NOT NULL,
    payload     bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT outbox_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_event_id_length CHECK (octet_length(event_id) BETWEEN 1 AND 255)
);

-- Refused deliveries. It shares no key with the gate: a refusal can never take
-- the place of an event.
CREATE TABLE refusal (
    id           uuid NOT NULL,
    source_id    int NOT NULL,
    received_at  timestamptz NOT NULL,
    cause        text NOT NULL,
    diagnosis    text NOT NULL,
    whole        boolean NOT NULL,
    method       text NOT NULL,
    url          text NOT NULL,
    remote       text NOT NULL,
    key_id       int,
    headers      bytea,
    body         bytea,
    size         int NOT NULL,
    CONSTRAINT refusal_pkey PRIMARY KEY (id),
    CONSTRAINT refusal_whole CHECK (whole = (body IS NOT NULL))
);
CREATE INDEX refusal_source_idx ON refusal (source_id, id);

CREATE TABLE replay (
    id           uuid NOT NULL,
    state        text NOT NULL,
    scope        jsonb NOT NULL,
    digest       bytea,
    actor        text NOT NULL,
    reason       text,
    rate         real,
    options      jsonb NOT NULL DEFAULT '{}',
    summary      jsonb NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    started_at   timestamptz,
    finished_at  timestamptz,
    CONSTRAINT replay_pkey PRIMARY KEY (id),
    CONSTRAINT replay_state CHECK (state IN ('planning', 'planned', 'running', 'cancelled', 'done', 'expired'))
);

CREATE TABLE replay_item (
    replay_id       uuid NOT NULL,
    position        bigint NOT NULL,
    effect_id       uuid,
    event_id        uuid NOT NULL,
    effect_version  int,
    action          text NOT NULL,
    diff            bytea,
    diff_key_id     int,
    outcome         text,
    detail          text,
    acted_at        timestamptz,
    CONSTRAINT replay_item_pkey PRIMARY KEY (replay_id, position)
);
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id) WHERE outcome IS NULL;
CREATE INDEX replay_item_open_idx ON replay_item (replay_id, position) WHERE outcome IS NULL;

CREATE TABLE audit (
    id          uuid NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    actor       text NOT NULL,
    action      text NOT NULL,
    object      text NOT NULL,
    reason      text,
    before      jsonb,
    after       jsonb,
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_object_idx ON audit (object, id);
