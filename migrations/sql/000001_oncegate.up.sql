-- oncegate:oldest 1
-- Every table of Oncegate. Names are unqualified, because the connection's search_path names the schema.
--
-- The tables that a delivery writes have no foreign keys. A foreign key would lock the row of the source or the route in every
-- delivery, and prune removes bodies, effects and events at different times.

-- Sources and routes -------------------------------------------------------------------------------------------------

CREATE TABLE source (
    id            int GENERATED ALWAYS AS IDENTITY,
    name          text NOT NULL,
    key_name      text,                             -- the first name, which keys and outbox rows are made with; NULL is name
    provider      text NOT NULL,
    providers     text[] NOT NULL DEFAULT '{}',     -- earlier providers with the same event ids
    class         text NOT NULL,                    -- of retention
    tombstone     interval,                         -- how long event ids are kept; NULL is what the class says
    tenant        text NOT NULL DEFAULT '',
    emit          boolean NOT NULL DEFAULT false,   -- only such a source takes rows of emit(): a caller must not take a provider's keys
    emit_limit    int NOT NULL DEFAULT 1048576,     -- the longest payload of emit() in bytes; the schema's owner may change it
    emit_ordered  boolean NOT NULL DEFAULT false,   -- a route of the source is in order of arrival
    shadow        boolean NOT NULL DEFAULT false,   -- as last registered, for people; the decision about an effect is in its own row
    disabled      boolean NOT NULL DEFAULT false,   -- as last registered
    awaited_since timestamptz,                      -- when deliveries were taken again, after a pause or while it was disabled; NULL: always
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT source_pkey PRIMARY KEY (id),
    CONSTRAINT source_name_key UNIQUE (name),
    CONSTRAINT source_emit_limit CHECK (emit_limit BETWEEN 1 AND 67108864)
);
-- Two sources that make their keys with one name would make the same keys.
CREATE UNIQUE INDEX source_key_name_key ON source ((coalesce(key_name, name)));

CREATE TABLE route (
    id          int GENERATED ALWAYS AS IDENTITY,
    source_id   int NOT NULL,
    name        text NOT NULL,
    key_name    text, -- as in source
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
CREATE UNIQUE INDEX route_key_name_key ON route (source_id, (coalesce(key_name, name)));

-- The definition of a route in each of its versions, so that a plan can say which one made an effect. Rows are never changed
-- and never pruned: each change of the configuration adds one.
CREATE TABLE route_version (
    route_id    int NOT NULL,
    version     int NOT NULL,
    target      text NOT NULL,
    kind        text NOT NULL,
    definition  jsonb NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT route_version_pkey PRIMARY KEY (route_id, version)
);

-- Every renaming. The row was called name, and then into_name; route_id is NULL for a source. A process that starts with an
-- earlier configuration finds its names here, and applies no renaming twice.
CREATE TABLE past_name (
    id         bigint GENERATED ALWAYS AS IDENTITY,
    source_id  int NOT NULL,
    route_id   int,
    name       text NOT NULL,
    into_name  text NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT past_name_pkey PRIMARY KEY (id),
    CONSTRAINT past_name_key UNIQUE NULLS NOT DISTINCT (source_id, route_id, name, into_name),
    CONSTRAINT past_name_source_fkey FOREIGN KEY (source_id) REFERENCES source (id),
    CONSTRAINT past_name_route_fkey FOREIGN KEY (route_id) REFERENCES route (id)
);

-- What operators have paused: a paused source takes no deliveries, and the effects of a paused route or target wait. A row exists while
-- the pause lasts. Every process reads the table once a second.
CREATE TABLE pause (
    id         bigint GENERATED ALWAYS AS IDENTITY,
    source_id  int,
    route_id   int,
    target     text,                                -- its name in the configuration
    actor      text NOT NULL,
    reason     text NOT NULL,
    paused_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pause_pkey PRIMARY KEY (id),
    CONSTRAINT pause_key UNIQUE NULLS NOT DISTINCT (source_id, route_id, target),
    CONSTRAINT pause_one CHECK (num_nonnulls(source_id, route_id, target) = 1),
    CONSTRAINT pause_source_fkey FOREIGN KEY (source_id) REFERENCES source (id),
    CONSTRAINT pause_route_fkey FOREIGN KEY (route_id) REFERENCES route (id)
);

-- The target of each route in one configuration: {"<route id>": "<target>"}. A lease token contains the id of the row, so that
-- an effect whose outcome is unknown is never sent to a second target.
CREATE TABLE routing (
    id          int GENERATED ALWAYS AS IDENTITY,
    digest      bytea NOT NULL,
    targets     jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT routing_pkey PRIMARY KEY (id),
    CONSTRAINT routing_digest_key UNIQUE (digest)
);

-- The recipes that made the keys of each route. A changed recipe does not repeat effects that happened under keys of the former one,
-- unless the configuration says so.
CREATE TABLE key_recipe (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    route_id    int NOT NULL,
    digest      bytea NOT NULL,
    version     int NOT NULL,
    words       text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    used_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT key_recipe_pkey PRIMARY KEY (id),
    CONSTRAINT key_recipe_key UNIQUE (route_id, digest),
    CONSTRAINT key_recipe_route_fkey FOREIGN KEY (route_id) REFERENCES route (id),
    CONSTRAINT key_recipe_digest_length CHECK (octet_length(digest) = 32)
);

-- Moves of sources from one database to another. Each of the two databases has a row: the one that the source leaves has direction out.
CREATE TABLE source_move (
    source_id   int NOT NULL,
    direction   text NOT NULL,
    other       text NOT NULL,      -- the name of the other database in the configuration
    state       text NOT NULL,      -- out: copying, closed, settled. in: copying, open, settled
    position    text NOT NULL DEFAULT '', -- in: the last event id whose key was copied in the order of event ids
    copied      bigint NOT NULL DEFAULT 0, -- in: how many keys were copied
    actor       text NOT NULL,
    reason      text NOT NULL,
    began_at    timestamptz NOT NULL DEFAULT now(),
    changed_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT source_move_pkey PRIMARY KEY (source_id),
    CONSTRAINT source_move_source_fkey FOREIGN KEY (source_id) REFERENCES source (id),
    CONSTRAINT source_move_direction CHECK (direction IN ('out', 'in')),
    CONSTRAINT source_move_state CHECK (state IN ('copying', 'settled') OR state = CASE direction WHEN 'out' THEN 'closed' ELSE 'open' END)
);

-- The events that a source received while its keys were copied, which the copy in the order of event ids may have missed. A trigger that
-- exists during a move writes them.
CREATE TABLE source_move_event (
    source_id  int NOT NULL,
    event_id   uuid NOT NULL,
    copied     boolean NOT NULL DEFAULT false,
    CONSTRAINT source_move_event_pkey PRIMARY KEY (source_id, event_id)
);

-- The functions of the triggers that `oncegate sources move` makes. note_event writes down what arrives during a move. refuse_event is
-- the fence of a database that the source has left, or that does not have all of its keys yet: it refuses even a process that does not know
-- of the move. refuse_effect keeps an effect whose order or key another database decides about from being carried out here again.
DO $$
BEGIN
    EXECUTE format($note$
CREATE FUNCTION %1$I.note_event() RETURNS trigger
LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    INSERT INTO source_move_event (source_id, event_id) VALUES (NEW.source_id, NEW.id) ON CONFLICT ON CONSTRAINT source_move_event_pkey DO NOTHING;
    RETURN NULL;
END
$body$
$note$, current_schema());
    EXECUTE format($refuse$
CREATE FUNCTION %1$I.refuse_event() RETURNS trigger
LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    RAISE EXCEPTION 'the source lives in another database, or is on its way into this one' USING ERRCODE = 'OG001';
END
$body$
$refuse$, current_schema());
    EXECUTE format($effect$
CREATE FUNCTION %1$I.refuse_effect() RETURNS trigger
LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    RAISE EXCEPTION 'the source lives in another database, which decides about the order and the keys of its effects' USING ERRCODE = 'OG002';
END
$body$
$effect$, current_schema());
END $$;
REVOKE ALL ON FUNCTION note_event() FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_event() FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_effect() FROM PUBLIC;

-- Events -------------------------------------------------------------------------------------------------------------

-- The gate. UNIQUE (source_id, event_id) alone decides whether a delivery is the first of its event or a duplicate. Never
-- partition this table by time: the time would have to be part of the key, which would end deduplication. fillfactor leaves
-- room for HOT updates of the counter of duplicates.
CREATE TABLE inbox_event (
    id                uuid NOT NULL,
    source_id         int NOT NULL,
    event_id          text NOT NULL,
    transmission      text,        -- the signed id of the transmission, of the few providers whose signature does not cover the whole event
    type              text NOT NULL,
    body_sha256       bytea NOT NULL, -- 32 bytes: the SHA-256; 33 bytes: an HMAC of it, as in all hashes of content below
    canonical_sha256  bytea,
    occurred_at       timestamptz,
    received_at       timestamptz NOT NULL,
    admission         text NOT NULL,
    admission_detail  text,
    discarded_at      timestamptz, -- an operator discarded a dead letter that has no effect
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
    conflict_paths    text[],
    parent            uuid,
    tenant            text,        -- of the credential, or else of the source, at the time of recording; NULL is the source's of today
    traceparent       text,
    shadow            boolean NOT NULL DEFAULT false, -- recorded while its source was in shadow mode: effects that are made of it later are shadow too
    copied            boolean NOT NULL DEFAULT false, -- only the key of an event that the database has from which its source moved here
    CONSTRAINT inbox_event_pkey PRIMARY KEY (id),
    CONSTRAINT inbox_event_key UNIQUE (source_id, event_id),
    CONSTRAINT inbox_event_transmission_length CHECK (octet_length(transmission) BETWEEN 1 AND 255),
    CONSTRAINT inbox_event_event_id_length CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    CONSTRAINT inbox_event_type_length CHECK (octet_length(type) <= 255),
    CONSTRAINT inbox_event_body_sha256_length CHECK (octet_length(body_sha256) IN (32, 33)),
    CONSTRAINT inbox_event_admission CHECK (admission IN ('ok', 'unusable', 'beyond_retention', 'unrouted'))
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
-- Finds the same body under another id if the provider does not sign its id. The search may miss one.
CREATE INDEX inbox_event_replay_idx ON inbox_event (source_id, body_sha256) WHERE id_unsigned;
-- The second key of an event that has one: one captured delivery must not become many events.
CREATE UNIQUE INDEX inbox_event_transmission_key ON inbox_event (source_id, transmission) WHERE transmission IS NOT NULL;
CREATE INDEX inbox_event_dead_idx ON inbox_event (id) WHERE admission IN ('unusable', 'beyond_retention');
-- The calls that follow a call of an operation. Few events have a parent, so the index is small.
CREATE INDEX inbox_event_parent_idx ON inbox_event (parent) WHERE parent IS NOT NULL;

-- The exact bytes of each delivery, partitioned by class and then by the day of the UUIDv7. There is no default partition, so that
-- an insert without its partition fails (23514) and the partition is made.
CREATE TABLE inbox_body (
    class    text NOT NULL,
    id       uuid NOT NULL,
    key_id   int,
    headers  bytea NOT NULL,
    body     bytea NOT NULL,
    CONSTRAINT inbox_body_pkey PRIMARY KEY (class, id)
) PARTITION BY LIST (class);

-- lz4 inserts 28 % faster, but not every PostgreSQL has it.
DO $$
BEGIN
    ALTER TABLE inbox_body ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    NULL;
END $$;

-- Bodies that are still needed when their day is dropped.
CREATE TABLE inbox_body_kept PARTITION OF inbox_body FOR VALUES IN ('kept')
    WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The objects of the archive, which contain bodies that prune has removed. The row is written before its object, so that no object
-- is without a row: an erasure finds each by its row.
CREATE TABLE archive_object (
    name          text NOT NULL,  -- below the archive's address
    kind          text NOT NULL,
    class         text NOT NULL,
    day           date NOT NULL,  -- of the keys, in UTC
    first_key     uuid NOT NULL,  -- the least and the greatest key of its lines: of a body its id, of a conflict the id of its event
    last_key      uuid NOT NULL,
    generation    int NOT NULL,   -- raised whenever the lines are written again
    state         text NOT NULL,
    lines         int NOT NULL DEFAULT 0,
    size          bigint NOT NULL DEFAULT 0,
    index_offset  bigint NOT NULL DEFAULT 0,
    key_ids       int[] NOT NULL DEFAULT '{}', -- the sealing keys of its lines, 0 for plain ones, and how many lines each has
    key_lines     int[] NOT NULL DEFAULT '{}',
    written_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT archive_object_pkey PRIMARY KEY (name),
    CONSTRAINT archive_object_kind CHECK (kind IN ('body', 'conflict')),
    CONSTRAINT archive_object_state CHECK (state IN ('writing', 'stored', 'removing')),
    CONSTRAINT archive_object_range CHECK (first_key <= last_key)
);
CREATE INDEX archive_object_day_idx ON archive_object (kind, day, first_key);

-- Events that were erased and that an object of the archive may still contain.
CREATE TABLE archive_erasure (
    event_id   uuid NOT NULL,
    body_id    uuid NOT NULL,
    erased_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT archive_erasure_pkey PRIMARY KEY (event_id)
);

-- Payloads that were acknowledged under the id of an event with another payload. Oncegate keeps each until the body horizon of its
-- class, so that nothing acknowledged is lost: an operator can compare it with the event and admit it as another event.
CREATE TABLE conflict (
    id               uuid NOT NULL,
    event_id         uuid NOT NULL,
    source_id        int NOT NULL,
    payload_sha256   bytea NOT NULL, -- of the canonical form, or of the bytes if there is none: decides which payloads differ
    sha256           bytea NOT NULL,
    paths            text[] NOT NULL,
    type             text NOT NULL,
    occurred_at      timestamptz,
    sequence_key     bytea NOT NULL, -- empty if sealed
    sequence_number  bytea NOT NULL,
    sequence_sealed  bytea,
    sequence_key_id  int,
    id_unsigned      boolean NOT NULL,
    deliveries       int NOT NULL DEFAULT 1,
    first_seen_at    timestamptz NOT NULL,
    last_seen_at     timestamptz NOT NULL,
    admitted_at      timestamptz,
    admitted_as      uuid,
    dismissed_at     timestamptz, -- an operator has decided that it needs no event; it may still be admitted
    dismissed_by     text,
    key_id           int,
    headers          bytea NOT NULL,
    body             bytea NOT NULL,
    CONSTRAINT conflict_pkey PRIMARY KEY (id),
    CONSTRAINT conflict_payload_key UNIQUE (event_id, payload_sha256),
    CONSTRAINT conflict_type_length CHECK (octet_length(type) <= 255),
    CONSTRAINT conflict_sha256_length CHECK (octet_length(sha256) IN (32, 33) AND octet_length(payload_sha256) IN (32, 33)),
    CONSTRAINT conflict_admitted CHECK ((admitted_at IS NULL) = (admitted_as IS NULL)),
    CONSTRAINT conflict_dismissed CHECK ((dismissed_at IS NULL) = (dismissed_by IS NULL))
);
-- Prune removes the payloads of each source that were last seen before the horizon.
CREATE INDEX conflict_source_idx ON conflict (source_id, last_seen_at);

-- Refused deliveries. They share no key with the gate, so that a refusal never takes the place of an event. Each peer and each
-- diagnosis has an even share, so that a peer that floods loses its own refusals.
CREATE TABLE refusal (
    id           uuid NOT NULL,
    source_id    int NOT NULL,
    received_at  timestamptz NOT NULL,
    cause        text NOT NULL,
    diagnosis    text NOT NULL,
    finding      text,          -- what the diagnosis found, from a closed set
    whole        boolean NOT NULL,
    method       text NOT NULL,
    url          text NOT NULL,
    remote       text NOT NULL,
    peer         text,          -- the IPv4 address, or the /64 network of the IPv6 address
    key_id       int,
    headers      bytea,
    body         bytea,
    size         int NOT NULL,
    CONSTRAINT refusal_pkey PRIMARY KEY (id),
    CONSTRAINT refusal_whole CHECK (whole = (body IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX refusal_source_idx ON refusal (source_id, id);

-- Refusals that an operator has seen and that need nothing. Those of another source, cause or peer still wait for one.
CREATE TABLE refusal_acknowledgement (
    source_id  int NOT NULL,
    cause      text NOT NULL,
    peer       text NOT NULL, -- as in refusal; empty if it is not known
    actor      text NOT NULL,
    reason     text NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT refusal_acknowledgement_pkey PRIMARY KEY (source_id, cause, peer)
);

-- The keys and certificates of senders that have verified a delivery. A process that starts has them at once, and need not fetch them
-- while forgeries name others.
CREATE TABLE verified_key (
    digest       bytea NOT NULL, -- SHA-256 of the address and of what is posted to it
    url          text NOT NULL,  -- for people
    document     bytea NOT NULL,
    fetched_at   timestamptz NOT NULL,
    verified_at  timestamptz NOT NULL, -- when it last verified a delivery, to a day
    CONSTRAINT verified_key_pkey PRIMARY KEY (digest),
    CONSTRAINT verified_key_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT verified_key_document_length CHECK (octet_length(document) BETWEEN 1 AND 1048576)
);

-- Calls of operations ------------------------------------------------------------------------------------------------

CREATE TABLE operation_result (
    event_id     uuid NOT NULL,
    status       text NOT NULL,
    key_id       int,
    document     bytea NOT NULL,
    rendered_at  timestamptz NOT NULL,
    CONSTRAINT operation_result_pkey PRIMARY KEY (event_id),
    CONSTRAINT operation_result_status CHECK (status IN ('done', 'failed', 'partial', 'indeterminate'))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);

-- Which call follows which earlier one, and how. The gate inserts the row in the transaction that records the following call, and
-- the constraints decide between two calls that want to follow the same one.
CREATE TABLE operation_follow (
    child          uuid NOT NULL,  -- the event of the call that follows
    parent         uuid NOT NULL,  -- the event of the earlier call
    kind           text NOT NULL,
    intent_hash    bytea NOT NULL, -- of the child's credential, operation and canonical payload
    parent_status  text NOT NULL,  -- the status of the parent's result at that moment
    CONSTRAINT operation_follow_pkey PRIMARY KEY (child),
    CONSTRAINT operation_follow_once UNIQUE (parent, kind, intent_hash),
    CONSTRAINT operation_follow_kind CHECK (kind IN ('resumes', 'instead_of')),
    CONSTRAINT operation_follow_status CHECK (parent_status IN ('done', 'failed', 'partial')),
    CONSTRAINT operation_follow_hash_length CHECK (octet_length(intent_hash) IN (32, 33))
);

-- Recent calls with their keys, for operations that ask whether a call repeats another one under a new key. Later calls remove a row
-- that has expired.
CREATE TABLE recent_call (
    source_id   int NOT NULL,
    call_hash   bytea NOT NULL, -- of the credential, the operation and the canonical payload
    event_id    text NOT NULL,  -- the key of the first call
    expires_at  timestamptz NOT NULL,
    CONSTRAINT recent_call_pkey PRIMARY KEY (source_id, call_hash),
    CONSTRAINT recent_call_hash_length CHECK (octet_length(call_hash) IN (32, 33))
);
CREATE INDEX recent_call_expires_idx ON recent_call (expires_at);

-- Sessions that an engine opens for an agent. The bearer of the token makes calls for one run until it expires. Only the SHA-256 of
-- the token's 256 random bits is stored.
CREATE TABLE agent_session (
    id          uuid NOT NULL,
    digest      bytea NOT NULL,
    source_id   int NOT NULL,
    credential  text NOT NULL,
    run         text NOT NULL,
    operations  text[],                 -- NULL: all that the credential may call
    new_keys    int NOT NULL DEFAULT 0, -- a minute; 0: no limit besides the credential's
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
CREATE INDEX agent_session_expiry_idx ON agent_session (expires_at); -- for prune

-- Effects and their order ----------------------------------------------------------------------------------------------

CREATE TABLE effect (
    id                 uuid NOT NULL,
    event_id           uuid NOT NULL,
    route_id           int NOT NULL,
    route_version      int NOT NULL,
    item               int NOT NULL DEFAULT 0,
    state              text NOT NULL,
    reason             text,
    -- How often the effect has left a state at rest, or an operator has decided about it without moving it. version counts only
    -- how often it was given new attempts, and its attempts are numbered by version.
    revision           int NOT NULL DEFAULT 0,
    version            int NOT NULL DEFAULT 1,
    fresh_trigger      text,                           -- why it was given its current attempts; NULL: by its event
    -- The key sent to the target. If the route has a recipe, it is made of what the recipe returns, and event_key is the one
    -- that is made of the event and the route. NULL: idempotency_key is that one.
    idempotency_key    text NOT NULL,
    event_key          text,
    key_hash           bytea,
    duplicate_of       uuid,                           -- the owner of the effect key when this effect asked for it
    sequence_key_hash  bytea,
    sequence_number    numeric,
    order_waived       boolean NOT NULL DEFAULT false, -- an operator has it take part although another effect has its number
    filtered           boolean NOT NULL DEFAULT false, -- the route does not take the type: it only fills its number's place
    -- Recorded in shadow mode: the effect is evaluated and never carried out, whatever the configuration says by then. Only a replay
    -- that an operator has planned for it ends that.
    shadow             boolean NOT NULL DEFAULT false,
    lease_token        uuid,
    lease_until        timestamptz,
    send_started_at    timestamptz,
    -- The first attempt that a deduplicating target may have seen: from then on the target may know the key, and forgets it after
    -- its window. unknown_lease is its lease token. unknown_before: there was such an attempt before an operator had it sent again.
    unknown_since      timestamptz,
    unknown_lease      uuid,
    unknown_before     boolean NOT NULL DEFAULT false,
    attempts           int NOT NULL DEFAULT 0,
    next_at            timestamptz,
    job_id             bigint,
    rearms             int NOT NULL DEFAULT 0,
    rearmed_at         timestamptz,
    unfinished         boolean NOT NULL DEFAULT false,
    rendered           bytea,
    rendered_key_id    int,
    fetched            bytea,                          -- the answer of the route's fetch that the request was made of
    fetched_key_id     int,
    last_code          text,
    result             bytea,
    result_key_id      int,
    finished_at        timestamptz,
    list_cancelled_at  timestamptz,                    -- the effect became a list, and its items that had not ended then never happen
    CONSTRAINT effect_pkey PRIMARY KEY (id),
    CONSTRAINT effect_event_route_item_key UNIQUE (event_id, route_id, item),
    CONSTRAINT effect_state CHECK (state IN ('pending', 'claimed', 'retry', 'held', 'done', 'dead',
        'indeterminate', 'superseded', 'skipped', 'duplicate')),
    CONSTRAINT effect_claimed_lease CHECK ((state = 'claimed') = (lease_token IS NOT NULL)),
    CONSTRAINT effect_lease CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT effect_finished CHECK ((finished_at IS NOT NULL) = (state IN ('done', 'superseded', 'skipped', 'duplicate'))),
    CONSTRAINT effect_due CHECK (next_at IS NOT NULL OR state NOT IN ('pending', 'claimed', 'retry')),
    CONSTRAINT effect_at_rest CHECK (next_at IS NULL OR state IN ('pending', 'claimed', 'retry', 'held')),
    CONSTRAINT effect_reason CHECK (reason IS NOT NULL OR state NOT IN ('dead', 'indeterminate', 'skipped')),
    CONSTRAINT effect_duplicate_of CHECK ((state = 'duplicate') = (duplicate_of IS NOT NULL)),
    CONSTRAINT effect_fresh_trigger CHECK (fresh_trigger IN ('rearm', 'replay', 'manual'))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
-- The sweeper walks it. next_at of a claimed effect is the end of its lease.
CREATE INDEX effect_due_idx ON effect (next_at, id) WHERE next_at IS NOT NULL;
CREATE INDEX effect_rest_idx ON effect (route_id, id) WHERE state IN ('dead', 'indeterminate');
CREATE INDEX effect_sequence_idx ON effect (route_id, sequence_key_hash, sequence_number, id) WHERE sequence_key_hash IS NOT NULL;
-- The duplicates that have to hear how their owner ended.
CREATE INDEX effect_duplicate_of_idx ON effect (duplicate_of) WHERE duplicate_of IS NOT NULL;
-- A probe walks these few rows, among any number of dead ones.
CREATE INDEX effect_indeterminate_idx ON effect (route_id, id) WHERE state = 'indeterminate';
-- The unsettled effects of a key, in order. A decision reads the first or the last few, among any number of settled ones.
CREATE INDEX effect_open_idx ON effect (route_id, sequence_key_hash, sequence_number, id)
    WHERE sequence_key_hash IS NOT NULL AND state IN ('pending', 'claimed', 'retry', 'held', 'indeterminate');
-- Dead letters, newest first, among any number of settled effects.
CREATE INDEX effect_dead_idx ON effect (id) WHERE state = 'dead';
-- The oldest held effect of a route: prune must not remove its key before it.
CREATE INDEX effect_held_idx ON effect (route_id, id) WHERE state = 'held';

-- Numbers of effects in order of arrival. The inserting statement takes them, so that no clock of a process decides the order. A
-- session must not take numbers in advance, because they follow each other in the order of the inserts.
CREATE SEQUENCE effect_arrival AS bigint CACHE 1;

CREATE TABLE effect_attempt (
    effect_id       uuid NOT NULL,
    attempt         int NOT NULL,
    version         int NOT NULL,
    trigger         text NOT NULL,
    node            text NOT NULL,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz NOT NULL,
    outcome         text NOT NULL,
    reason          text,                           -- why it failed; the effect's reason says why no other attempt follows
    code            text,
    recognised      boolean NOT NULL DEFAULT false, -- the target knew the key, so an earlier attempt did the work
    -- What the target answered may repeat the request. With a keyring the excerpt is sealed, and the text is NULL.
    excerpt         text,
    excerpt_sealed  bytea,
    excerpt_key_id  int,
    -- The first 16 bytes of the SHA-256 of the idempotency key. A Message-ID begins with them, so that one index finds effects by
    -- both. An effect that is sent again under a new key is found by the former key too. NULL: nothing was sent, or the event was erased.
    key_digest      bytea,
    CONSTRAINT effect_attempt_pkey PRIMARY KEY (effect_id, version, attempt),
    CONSTRAINT effect_attempt_trigger CHECK (trigger IN ('initial', 'automatic', 'rearm', 'replay', 'manual', 'sweep')),
    CONSTRAINT effect_attempt_outcome CHECK (outcome IN ('done', 'retry', 'dead', 'indeterminate', 'skipped', 'lost')),
    CONSTRAINT effect_attempt_excerpt_length CHECK (octet_length(excerpt) <= 2048)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX effect_attempt_key_idx ON effect_attempt (key_digest, effect_id) WHERE key_digest IS NOT NULL;

CREATE TABLE effect_key (
    route_id     int NOT NULL,
    key_hash     bytea NOT NULL,
    effect_id    uuid NOT NULL,
    received_at  timestamptz NOT NULL,
    expires_at   timestamptz,
    CONSTRAINT effect_key_pkey PRIMARY KEY (route_id, key_hash),
    CONSTRAINT effect_key_hash_length CHECK (octet_length(key_hash) = 32)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX effect_key_expires_idx ON effect_key (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX effect_key_effect_idx ON effect_key (effect_id);

-- The installation's secrets, sealed with the keyring. Sequence keys, labels and addresses are hashed under one, because a reader of the
-- tables could otherwise guess an email address and compare its hash. They are never rotated, because a stream is known by the
-- hash of its key; the key that seals them is.
CREATE TABLE order_secret (
    id          uuid NOT NULL,
    secret      bytea NOT NULL,
    key_id      int NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_secret_pkey PRIMARY KEY (id)
);

-- The definitions of a route's order: its mode, and where key and number come from. Another definition begins new streams, and
-- its id is part of the hash of their keys, so that no process confuses them with earlier ones.
CREATE TABLE order_definition (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    route_id    int NOT NULL,
    digest      bytea NOT NULL,
    salted      boolean NOT NULL, -- false: the first of the route, whose streams have no definition_id
    words       text NOT NULL,    -- the definition for people
    policy      jsonb NOT NULL,   -- as last configured: it decides about effects that are held under the definition
    secret_id   uuid,             -- NULL: the keys are hashed without a secret; never changed
    created_at  timestamptz NOT NULL DEFAULT now(),
    used_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_definition_pkey PRIMARY KEY (id),
    CONSTRAINT order_definition_key UNIQUE (route_id, digest),
    CONSTRAINT order_definition_route_fkey FOREIGN KEY (route_id) REFERENCES route (id),
    CONSTRAINT order_definition_secret_fkey FOREIGN KEY (secret_id) REFERENCES order_secret (id),
    CONSTRAINT order_definition_digest_length CHECK (octet_length(digest) = 32)
);

CREATE TABLE stream (
    id                bigint GENERATED ALWAYS AS IDENTITY,
    route_id          int NOT NULL,
    definition_id     bigint, -- NULL: the first definition of the route
    key_hash          bytea NOT NULL,
    -- The key as people see it: in plain text, or sealed, or neither once it was erased.
    key_label         text,
    key_label_sealed  bytea,
    key_label_key_id  int,
    applied           numeric,
    in_flight         uuid,
    gap_since         timestamptz,
    warned_at         timestamptz, -- when the gap was reported
    blocked_by        uuid,
    started_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stream_pkey PRIMARY KEY (id),
    CONSTRAINT stream_key UNIQUE (route_id, key_hash),
    CONSTRAINT stream_key_hash_length CHECK (octet_length(key_hash) = 32),
    CONSTRAINT stream_key_label CHECK (key_label IS NULL OR key_label_sealed IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX stream_gap_idx ON stream (gap_since) WHERE gap_since IS NOT NULL;
CREATE INDEX stream_blocked_idx ON stream (route_id, id) WHERE blocked_by IS NOT NULL;

-- Addresses to which no message is sent, because they bounced, complained or unsubscribed.
CREATE TABLE suppression (
    id            uuid NOT NULL,        -- in the order of creation
    digest        bytea NOT NULL,       -- of the address in its normal form
    secret_id     uuid,                 -- the secret under which the digest is an HMAC; NULL: a plain hash
    target        text NOT NULL,        -- '' is every target
    address       bytea,                -- sealed like a body; NULL: only the digest is kept
    key_id        int,
    reason        text NOT NULL,
    source_event  uuid,                 -- the event that reported it; NULL: an operator did
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz,          -- NULL: never
    CONSTRAINT suppression_pkey PRIMARY KEY (id),
    CONSTRAINT suppression_digest_target_key UNIQUE (digest, target),
    CONSTRAINT suppression_secret_fkey FOREIGN KEY (secret_id) REFERENCES order_secret (id),
    CONSTRAINT suppression_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT suppression_address_length CHECK (octet_length(address) <= 1024),
    CONSTRAINT suppression_target_length CHECK (octet_length(target) <= 63),
    CONSTRAINT suppression_reason CHECK (reason IN ('bounce', 'complaint', 'unsubscribe', 'manual'))
);
CREATE INDEX suppression_expires_idx ON suppression (expires_at) WHERE expires_at IS NOT NULL; -- for prune
-- Whether any row needs a secret that cannot be opened.
CREATE INDEX suppression_secret_idx ON suppression (secret_id) WHERE secret_id IS NOT NULL;

-- The outbox ---------------------------------------------------------------------------------------------------------

CREATE TABLE outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    source      text NOT NULL,
    event_id    text NOT NULL,
    type        text NOT NULL,
    payload     bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    ordered     boolean NOT NULL DEFAULT false,
    position    bigint,      -- in the order of commits; outbox_place sets it
    -- A row that can never be admitted stays until an operator has looked at it.
    refused_at  timestamptz,
    refusal     text,
    CONSTRAINT outbox_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_event_id_length CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    CONSTRAINT outbox_refused CHECK ((refused_at IS NULL) = (refusal IS NULL)),
    CONSTRAINT outbox_refusal CHECK (refusal IN ('source', 'event_id', 'type', 'too_large'))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE SEQUENCE outbox_position;
CREATE INDEX outbox_place_idx ON outbox (source, position, id) WHERE refused_at IS NULL;
CREATE INDEX outbox_refused_idx ON outbox (id) WHERE refused_at IS NOT NULL;

-- emit appends to the outbox in the caller's own transaction, and a relay admits the row after the commit. emit refuses what could never be
-- admitted, because its caller can still correct it. It also takes earlier names of a source. SECURITY DEFINER needs a fixed
-- search_path, so the statement that makes the function writes the schema's name into it.
DO $$
BEGIN
    EXECUTE format($emit$
CREATE FUNCTION %1$I.emit(source text, event_id text, type text, payload jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
DECLARE
    opened  %1$I.source;
    content bytea;
BEGIN
    SELECT s.* INTO opened FROM %1$I.source s WHERE s.name = emit.source;
    IF NOT FOUND THEN
        SELECT s.* INTO opened FROM %1$I.past_name p JOIN %1$I.source s ON s.id = p.source_id
        WHERE p.route_id IS NULL AND p.name = emit.source ORDER BY p.id DESC LIMIT 1;
    END IF;
    IF opened.emit IS NOT TRUE THEN
        RAISE EXCEPTION 'source %% is not open to emit', coalesce(quote_literal(emit.source), 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Set emit: true at the source in the configuration of Oncegate.';
    END IF;
    IF emit.event_id IS NULL OR octet_length(emit.event_id) NOT BETWEEN 1 AND 255 OR left(emit.event_id, 1) = '~' THEN
        RAISE EXCEPTION 'an event id is 1 to 255 bytes and does not start with ~' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF emit.type IS NULL OR octet_length(emit.type) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'an event type is 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF emit.payload IS NULL THEN
        RAISE EXCEPTION 'the payload is NULL' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    content := convert_to(emit.payload::text, 'UTF8');
    IF octet_length(content) > opened.emit_limit THEN
        RAISE EXCEPTION 'the payload is %% bytes, over the limit of %% bytes of source %%', octet_length(content), opened.emit_limit, opened.name
            USING ERRCODE = 'program_limit_exceeded',
                HINT = format('Emit a reference to the content instead, or raise the limit: UPDATE %1$I.source SET emit_limit = ... WHERE name = %%L, to 67108864 at most.', opened.name);
    END IF;
    INSERT INTO %1$I.outbox (source, event_id, type, payload, ordered)
    VALUES (coalesce(opened.key_name, opened.name), emit.event_id, emit.type, content, opened.emit_ordered);
END
$body$
$emit$, current_schema());

    -- The trigger runs for each row when the caller's transaction commits, and the first run does the work for all rows
    -- of the transaction. A row without a position that the transaction can see is its own, because every committed row
    -- has one. Positions only have to follow the commits where the order matters: among rows with one event id, or among
    -- all rows of a source whose rows are ordered. So what must be in order shares a lock, which the transaction holds
    -- until its commit is visible: the next holder takes a higher position, and commits later. There are 256 locks, so
    -- that a transaction with any number of rows fits into the lock table, and each transaction takes its locks in
    -- ascending order, so that no two of them wait for each other.
    -- The scan begins at the transaction's first row. Without enable_seqscan, old statistics could make every commit read
    -- the whole table.
    EXECUTE format($place$
CREATE FUNCTION %1$I.outbox_place() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = %1$I, pg_temp SET enable_seqscan = off AS $body$
DECLARE
    lock_key int;
    place    bigint;
BEGIN
    PERFORM FROM %1$I.outbox o WHERE o.id = NEW.id AND o.position IS NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR lock_key IN
        SELECT DISTINCT (hashtext(%1$L) & -256) | (hashtext(CASE WHEN o.ordered THEN o.source ELSE o.source || '/' || o.event_id END) & 255) AS k
        FROM %1$I.outbox o WHERE o.id >= NEW.id AND o.position IS NULL ORDER BY k
    LOOP
        PERFORM pg_advisory_xact_lock(1869506928, lock_key);
    END LOOP;
    place := nextval('%1$I.outbox_position');
    UPDATE %1$I.outbox o SET position = place WHERE o.id >= NEW.id AND o.position IS NULL;
    RETURN NULL;
END
$body$
$place$, current_schema());
END $$;
-- PostgreSQL opens functions to everybody.
REVOKE ALL ON FUNCTION emit(text, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_place() FROM PUBLIC;

CREATE CONSTRAINT TRIGGER outbox_place AFTER INSERT ON outbox
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION outbox_place();

-- Notifications ------------------------------------------------------------------------------------------------------

-- What waits for an operator, as of the last look. An operator is told once when it begins to wait and once when it is over.
CREATE TABLE notification (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    kind        text NOT NULL,
    name        text NOT NULL,          -- the target, source, <source>/<route> or pause; empty if the kind has no places
    count       bigint NOT NULL,
    more        boolean NOT NULL,
    since       timestamptz,            -- of the oldest; NULL is not known
    text        text NOT NULL,          -- in one sentence
    opened_at   timestamptz NOT NULL,   -- of the first look that saw it
    gone_at     timestamptz,            -- of the first look since then that did not see it
    told_at     timestamptz,            -- NULL: nobody has been told yet
    told_count  bigint NOT NULL DEFAULT 0,
    CONSTRAINT notification_pkey PRIMARY KEY (id),
    CONSTRAINT notification_key UNIQUE (kind, name),
    CONSTRAINT notification_text_present CHECK (text <> '')
);

-- The one row of the last look. A process looks, and then writes what follows from it only if nobody else has looked meanwhile.
CREATE TABLE notification_look (
    one         boolean NOT NULL DEFAULT true,
    source      text NOT NULL,          -- that the messages are emitted to
    looked_at   timestamptz NOT NULL DEFAULT '-infinity',
    digest_at   timestamptz NOT NULL DEFAULT now(), -- the last digest, or the first look
    CONSTRAINT notification_look_pkey PRIMARY KEY (one),
    CONSTRAINT notification_look_one CHECK (one)
);

-- Sources of the database --------------------------------------------------------------------------------------------

-- The sources that are defined while everything runs. content is what the configuration file would have below the name, as JSON. It
-- contains secrets and is sealed with the keyring.
CREATE TABLE source_definition (
    id          uuid NOT NULL,
    name        text NOT NULL,
    content     bytea NOT NULL,
    key_id      int NOT NULL,
    enabled     boolean NOT NULL,
    revision    bigint NOT NULL,        -- in which it was changed last
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    actor       text NOT NULL,          -- who changed it last, and why
    reason      text NOT NULL,
    CONSTRAINT source_definition_pkey PRIMARY KEY (id),
    CONSTRAINT source_definition_key UNIQUE (name)
);

-- The one row that each change of a definition locks and increments.
CREATE TABLE source_definition_revision (
    one         boolean NOT NULL DEFAULT true,
    revision    bigint NOT NULL,
    CONSTRAINT source_definition_revision_pkey PRIMARY KEY (one),
    CONSTRAINT source_definition_revision_one CHECK (one)
) WITH (fillfactor = 50);
INSERT INTO source_definition_revision (revision) VALUES (0);

-- Labels -------------------------------------------------------------------------------------------------------------

-- The values by which events are searched, which the configuration takes from their payloads. value is the text in UTF-8, or its HMAC under a
-- secret of the installation. There is no foreign key to the secret, because each delivery would lock the secret's row.
CREATE TABLE event_label (
    event_id   uuid NOT NULL,
    name       text NOT NULL,
    value      bytea NOT NULL,
    secret_id  uuid, -- a row of order_secret; NULL: the value is plain text
    CONSTRAINT event_label_pkey PRIMARY KEY (event_id, name),
    CONSTRAINT event_label_name_length CHECK (octet_length(name) BETWEEN 1 AND 63),
    CONSTRAINT event_label_value_length CHECK (octet_length(value) BETWEEN 1 AND 255)
);
CREATE INDEX event_label_value_idx ON event_label (name, value, event_id);

-- The labels of one commit of the gate until an indexer moves them to event_label: one row without an index on the labels, because a row
-- with two index entries for each label cost the gate a third of its speed. Searches read both tables.
CREATE TABLE event_label_batch (
    id         uuid NOT NULL, -- of one of the events
    event_id   uuid[] NOT NULL,
    name       text[] NOT NULL,
    value      bytea[] NOT NULL,
    secret_id  uuid, -- as in event_label
    CONSTRAINT event_label_batch_pkey PRIMARY KEY (id),
    CONSTRAINT event_label_batch_length CHECK (cardinality(event_id) = cardinality(name) AND cardinality(event_id) = cardinality(value))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- A row lives for less than a second, so compressing it would cost more than writing it.
ALTER TABLE event_label_batch
    ALTER event_id SET STORAGE EXTERNAL, ALTER name SET STORAGE EXTERNAL, ALTER value SET STORAGE EXTERNAL;

-- Replays ------------------------------------------------------------------------------------------------------------

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
    job_id       bigint,                    -- the job that works on it
    next_at      timestamptz,               -- when that job may take the next items
    position     bigint NOT NULL DEFAULT 0, -- every item up to here has its outcome, so that the next ones are found without reading these
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    started_at   timestamptz,
    finished_at  timestamptz,
    CONSTRAINT replay_pkey PRIMARY KEY (id),
    CONSTRAINT replay_state CHECK (state IN ('planning', 'planned', 'running', 'queued', 'cancelled', 'done', 'expired'))
);
CREATE INDEX replay_open_idx ON replay (state, id) WHERE state IN ('planning', 'planned', 'running', 'queued');

CREATE TABLE replay_item (
    replay_id        uuid NOT NULL,
    position         bigint NOT NULL,
    effect_id        uuid,
    event_id         uuid NOT NULL,
    route_id         int,  -- an effect that is still to be made has no id, but a route
    asked_id         uuid, -- the duplicate that was asked for, if effect_id is its owner
    -- The effect as the plan saw it. The run sends only effects that have not changed.
    effect_version   int,
    effect_state     text,
    effect_reason    text,
    effect_revision  int,
    action           text NOT NULL,
    verdict          text,
    left_out         text,
    diff             bytea,
    diff_key_id      int,
    CONSTRAINT replay_item_pkey PRIMARY KEY (replay_id, position),
    CONSTRAINT replay_item_action CHECK (action IN ('replay', 'new_key', 'carry_out', 'create', 'none')),
    CONSTRAINT replay_item_left_out CHECK ((action = 'none') = (left_out IS NOT NULL))
);
CREATE INDEX replay_item_event_idx ON replay_item (event_id);
-- With the plan, because finding one effect of a plan would otherwise read all of them.
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id, replay_id) WHERE left_out IS NULL;

-- The outcomes of a run, apart from its plan: a run adds rows and never updates the wide rows of the plan.
CREATE TABLE replay_outcome (
    replay_id  uuid NOT NULL,
    position   bigint NOT NULL,
    outcome    text NOT NULL,
    detail     text,
    made_id    uuid, -- the effect that was made, if the plan could not name one
    acted_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT replay_outcome_pkey PRIMARY KEY (replay_id, position),
    CONSTRAINT replay_outcome_outcome CHECK (outcome IN ('replayed', 'created', 'left_out', 'changed', 'decided_since', 'gone', 'body_gone', 'exists'))
);

-- Access and decisions -------------------------------------------------------------------------------------------------

CREATE TABLE audit (
    id      uuid NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text NOT NULL,
    action  text NOT NULL,
    object  text NOT NULL,
    reason  text,
    before  jsonb,
    after   jsonb,
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_object_idx ON audit (object, id);

-- Tokens of the API and the console. Only the SHA-256 of a token's 256 random bits is stored, with its first characters, by which
-- people recognise the token.
CREATE TABLE access_token (
    id            uuid NOT NULL,
    digest        bytea NOT NULL,
    prefix        text NOT NULL,
    name          text NOT NULL,
    scopes        text[] NOT NULL,
    tenant        text,        -- NULL: all tenants
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz, -- NULL: never
    last_used_at  timestamptz, -- written at most once a minute
    revoked_at    timestamptz,
    CONSTRAINT access_token_pkey PRIMARY KEY (id),
    CONSTRAINT access_token_digest_key UNIQUE (digest),
    CONSTRAINT access_token_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT access_token_name_given CHECK (name <> ''),
    CONSTRAINT access_token_tenant_given CHECK (tenant <> ''),
    CONSTRAINT access_token_scopes_given CHECK (cardinality(scopes) > 0),
    CONSTRAINT access_token_ends_later CHECK (expires_at > created_at)
);

-- The audit names a token by its name, so two valid tokens have different names.
CREATE UNIQUE INDEX access_token_name_idx ON access_token (name) WHERE revoked_at IS NULL;

-- Logins of the console. Only the SHA-256 of the cookie's value is stored.
CREATE TABLE console_login (
    id            uuid NOT NULL,
    digest        bytea NOT NULL,
    actor         text NOT NULL,
    scopes        text[] NOT NULL,
    tenant        text,          -- NULL: all tenants
    method        text NOT NULL, -- token, oidc or link
    token_id      uuid,          -- the token that it began with; it ends with the token
    created_at    timestamptz NOT NULL,
    used_at       timestamptz NOT NULL, -- written at most once a minute
    expires_at    timestamptz NOT NULL, -- even if it is used until then
    ended_at      timestamptz,
    CONSTRAINT console_login_pkey PRIMARY KEY (id),
    CONSTRAINT console_login_digest_key UNIQUE (digest),
    CONSTRAINT console_login_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT console_login_token_fkey FOREIGN KEY (token_id) REFERENCES access_token (id),
    CONSTRAINT console_login_actor_given CHECK (actor <> ''),
    CONSTRAINT console_login_tenant_given CHECK (tenant <> ''),
    CONSTRAINT console_login_scopes_given CHECK (cardinality(scopes) > 0),
    CONSTRAINT console_login_ends_later CHECK (expires_at > created_at)
);

CREATE INDEX console_login_expiry_idx ON console_login (expires_at); -- for prune

-- Links that log in once. Using one deletes it.
CREATE TABLE login_link (
    digest        bytea NOT NULL, -- SHA-256 of the link's code
    actor         text NOT NULL,
    scopes        text[] NOT NULL,
    tenant        text, -- NULL: all tenants
    expires_at    timestamptz NOT NULL,
    CONSTRAINT login_link_pkey PRIMARY KEY (digest),
    CONSTRAINT login_link_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT login_link_actor_given CHECK (actor <> ''),
    CONSTRAINT login_link_tenant_given CHECK (tenant <> ''),
    CONSTRAINT login_link_scopes_given CHECK (cardinality(scopes) > 0)
);
CREATE INDEX login_link_expiry_idx ON login_link (expires_at);

-- Requests of the API with an Idempotency-Key and their answers, so that a repeated request happens once. Only the hashes of the key
-- and of the request are kept.
CREATE TABLE api_request (
    key_hash     bytea NOT NULL,       -- SHA-256 of the actor and the key
    request_hash bytea NOT NULL,       -- SHA-256 of the key, the operation and the request
    lease        uuid NOT NULL,        -- of the process that carries it out: only that process records the end
    actor        text NOT NULL,
    operation    text NOT NULL,
    begun_at     timestamptz NOT NULL,
    lease_until  timestamptz NOT NULL, -- until then the request is in progress, unless it has ended
    ended_at     timestamptz,          -- NULL: the end is not known
    answer       bytea,                -- NULL of an ended request: the answer contained a secret
    expires_at   timestamptz NOT NULL,
    CONSTRAINT api_request_pkey PRIMARY KEY (key_hash),
    CONSTRAINT api_request_hash_length CHECK (octet_length(key_hash) = 32 AND octet_length(request_hash) = 32)
);
CREATE INDEX api_request_expiry_idx ON api_request (expires_at); -- for prune

-- Statistics, retention and processes -----------------------------------------------------------------------------------

-- Counts of each source and route by minute and by hour. Every process counts in memory and adds its counts every few seconds, outside
-- the transactions that it counts.
CREATE TABLE stat_minute (
    source_id  int NOT NULL,
    kind       text NOT NULL,
    minute     timestamptz NOT NULL,
    route_id   int NOT NULL,  -- 0 is the source itself
    tenant     text NOT NULL, -- '' is no tenant
    n          bigint NOT NULL,
    CONSTRAINT stat_minute_pkey PRIMARY KEY (source_id, kind, minute, route_id, tenant)
) WITH (fillfactor = 70);

-- The same by hour, kept for longer and read for longer periods.
CREATE TABLE stat_hour (
    source_id  int NOT NULL,
    kind       text NOT NULL,
    hour       timestamptz NOT NULL,
    route_id   int NOT NULL,
    tenant     text NOT NULL,
    n          bigint NOT NULL,
    CONSTRAINT stat_hour_pkey PRIMARY KEY (source_id, kind, hour, route_id, tenant)
) WITH (fillfactor = 70);

-- When the first and the last counted event of each source arrived.
CREATE TABLE stat_source (
    source_id       int NOT NULL,
    tenant          text NOT NULL,
    first_event_at  timestamptz NOT NULL,
    last_event_at   timestamptz NOT NULL,
    CONSTRAINT stat_source_pkey PRIMARY KEY (source_id, tenant)
) WITH (fillfactor = 50);

-- The last run of each source that asked its sender which events there were. The cursor lets an interrupted run continue; covered_until
-- is where the next scheduled run begins, less an overlap.
CREATE TABLE reconciliation (
    source_id      int NOT NULL,
    since_at       timestamptz NOT NULL, -- the period that the sender was asked about
    until_at       timestamptz NOT NULL,
    cursor         text NOT NULL,        -- the page that is read next; '' is the first one
    complete       boolean NOT NULL,
    covered_until  timestamptz,          -- the end of the period that complete runs have covered without a gap; NULL: none was complete
    began_at       timestamptz NOT NULL,
    ended_at       timestamptz,          -- NULL: it has not ended, or its process has died
    actor          text,                 -- NULL: the schedule started it
    error          text,
    counts         jsonb NOT NULL,
    CONSTRAINT reconciliation_pkey PRIMARY KEY (source_id),
    CONSTRAINT reconciliation_source_fkey FOREIGN KEY (source_id) REFERENCES source (id),
    CONSTRAINT reconciliation_period CHECK (since_at < until_at)
) WITH (fillfactor = 50);

-- The last batch of counts that each process has written. A batch is added in the transaction that writes its number, so that a
-- process can send a batch again if its commit was not confirmed.
CREATE TABLE stat_flush (
    node_id     uuid NOT NULL,
    batch       bigint NOT NULL,
    flushed_at  timestamptz NOT NULL,
    CONSTRAINT stat_flush_pkey PRIMARY KEY (node_id)
) WITH (fillfactor = 50);

-- How long the rows of each class are kept, as last configured. A class that leaves the configuration stays here, so that prune still
-- removes its rows.
CREATE TABLE retention_class (
    name           text NOT NULL,
    body           interval NOT NULL,
    tombstone      interval NOT NULL,
    effects        interval NOT NULL,
    refusals       interval NOT NULL,
    audit          interval NOT NULL,
    configured_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT retention_class_pkey PRIMARY KEY (name)
);

-- How far each walk of prune has come. The next pass continues there.
CREATE TABLE prune_walk (
    name          text NOT NULL,
    position      text NOT NULL,
    began_at      timestamptz NOT NULL,
    completed_at  timestamptz,
    CONSTRAINT prune_walk_pkey PRIMARY KEY (name)
) WITH (fillfactor = 50);

-- What each pass of prune removed. A complete pass that removed nothing and was not asked to include anything leaves no row.
CREATE TABLE prune_run (
    id          uuid NOT NULL,        -- a UUIDv7 of the beginning
    ended_at    timestamptz NOT NULL,
    complete    boolean NOT NULL,
    removed     jsonb NOT NULL,       -- rows, by table
    partitions  text[] NOT NULL,      -- days of bodies
    kept        bigint NOT NULL,
    left_behind bigint NOT NULL,      -- rows past their horizon that are still needed
    contended   text[] NOT NULL,      -- walks that another session's locks ended
    include     text[] NOT NULL,
    actor       text,                 -- NULL: the schedule started it
    archived    bigint NOT NULL DEFAULT 0, -- bodies that were written to the archive
    archive_error text,               -- why the archive took no more of them; NULL: it took all
    CONSTRAINT prune_run_pkey PRIMARY KEY (id)
);

-- One row for each running process, written every few seconds and removed when the process stops. A change that is safe only if all processes
-- know something, such as a new sealing key, asks here first.
CREATE TABLE node (
    id                uuid NOT NULL,
    name              text NOT NULL,
    version           text NOT NULL,
    roles             text[] NOT NULL,
    configuration     text NOT NULL, -- a fingerprint: it reveals nothing of the configuration
    definitions       bigint,        -- the revision of the sources of the database that it serves; NULL: it serves none of them
    not_reloaded      text,          -- why the last reload kept the configuration before; NULL: it did not
    not_reloaded_at   timestamptz,
    route_ids         int[],         -- the routes whose effects it carries out
    open_breakers     text[] NOT NULL DEFAULT '{}', -- the targets at which it makes no attempts, because they fail
    consumers         jsonb NOT NULL DEFAULT '[]', -- what it consumes from brokers, with the lag and the last error
    schema_known      int,           -- the newest versions that it knows
    river_known       int,
    key_ids           int[] NOT NULL,
    key_fingerprints  text[] NOT NULL, -- in the order of key_ids
    active_key        int,
    active_since      timestamptz, -- when active_key last changed; NULL: never
    started_at        timestamptz NOT NULL,
    heartbeat         timestamptz NOT NULL,
    CONSTRAINT node_pkey PRIMARY KEY (id),
    CONSTRAINT node_keys CHECK (cardinality(key_ids) = cardinality(key_fingerprints))
) WITH (fillfactor = 50);

-- Which versions of the program may run on this schema. A migration writes its row in its own transaction, so that an older program can
-- read it.
CREATE TABLE schema_version (
    tables      text NOT NULL,
    version     int NOT NULL,
    oldest      int NOT NULL, -- the version that a program must know to run on this one
    applied_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_version_pkey PRIMARY KEY (tables, version),
    CONSTRAINT schema_version_tables CHECK (tables IN ('oncegate', 'river')),
    CONSTRAINT schema_version_oldest CHECK (oldest BETWEEN 1 AND version)
);

-- The clusters and timelines on which the installation's data was written; the last row is the current one. A copy of the tables, in
-- another cluster or restored into the same one, finds a row that does not name it.
CREATE TABLE database_history (
    id                bigint GENERATED ALWAYS AS IDENTITY,
    system_identifier bigint NOT NULL,
    table_oid         oid NOT NULL,         -- of this table: a restored dump has another one
    timeline          bigint NOT NULL,
    position          pg_lsn NOT NULL,      -- when the row was written
    switched_at       pg_lsn,               -- up to where the previous timeline was replayed; NULL: not known
    last_job          bigint NOT NULL,      -- effects whose job has a higher number are newer
    verdict           text NOT NULL,
    marked            bigint NOT NULL DEFAULT 0, -- effects that became indeterminate
    began_at          timestamptz NOT NULL DEFAULT now(),
    decided_at        timestamptz,
    finished_at       timestamptz,          -- NULL: no effect may be carried out yet
    CONSTRAINT database_history_pkey PRIMARY KEY (id),
    CONSTRAINT database_history_place UNIQUE (system_identifier, table_oid, timeline),
    CONSTRAINT database_history_verdict CHECK (verdict IN ('first', 'undecided', 'whole', 'restored', 'undeclared', 'moved', 'copy'))
);
