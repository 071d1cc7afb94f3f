-- oncegate:oldest 22
-- Counts by minute and by hour of what each source and route did. Every process adds what it has counted in memory every few
-- seconds, outside the transactions that it counts. A program of before counts nothing, which stat_completeness tells.
CREATE TABLE stat_minute (
    source_id  int NOT NULL,
    kind       text NOT NULL,
    minute     timestamptz NOT NULL,
    route_id   int NOT NULL,  -- 0 is the source itself
    tenant     text NOT NULL, -- '' is nobody in particular
    n          bigint NOT NULL,
    CONSTRAINT stat_minute_pkey PRIMARY KEY (source_id, kind, minute, route_id, tenant)
) WITH (fillfactor = 70);

-- The same by hour: kept for longer, and read for longer stretches.
CREATE TABLE stat_hour (
    source_id  int NOT NULL,
    kind       text NOT NULL,
    hour       timestamptz NOT NULL,
    route_id   int NOT NULL,
    tenant     text NOT NULL,
    n          bigint NOT NULL,
    CONSTRAINT stat_hour_pkey PRIMARY KEY (source_id, kind, hour, route_id, tenant)
) WITH (fillfactor = 70);

-- When the first and the last event of each source came that was counted.
CREATE TABLE stat_source (
    source_id       int NOT NULL,
    tenant          text NOT NULL,
    first_event_at  timestamptz NOT NULL,
    last_event_at   timestamptz NOT NULL,
    CONSTRAINT stat_source_pkey PRIMARY KEY (source_id, tenant)
) WITH (fillfactor = 50);

-- How far each process has written its counts. A batch is added in the transaction that writes its number, so that a batch
-- whose commit was not confirmed can be sent again.
CREATE TABLE stat_flush (
    node_id     uuid NOT NULL,
    batch       bigint NOT NULL,
    flushed_at  timestamptz NOT NULL, -- what it counted until then is written
    ended       boolean NOT NULL,     -- it stopped after its last batch, and has nothing left
    CONSTRAINT stat_flush_pkey PRIMARY KEY (node_id)
) WITH (fillfactor = 50);

-- One row: since when all events are counted, by hours that are still kept.
CREATE TABLE stat_completeness (
    one    boolean NOT NULL DEFAULT true,
    since  timestamptz NOT NULL,
    CONSTRAINT stat_completeness_pkey PRIMARY KEY (one),
    CONSTRAINT stat_completeness_one CHECK (one)
);
INSERT INTO stat_completeness (since) VALUES (now());

-- What events are searched by: values that their source's configuration takes from them. value is the text in UTF-8 or, under
-- a secret of the installation, its HMAC. No foreign key leads to the secret: each delivery would lock its row.
CREATE TABLE event_label (
    event_id   uuid NOT NULL,
    name       text NOT NULL,
    value      bytea NOT NULL,
    secret_id  uuid, -- a row of order_secret; NULL: the value is plain
    CONSTRAINT event_label_pkey PRIMARY KEY (event_id, name),
    CONSTRAINT event_label_name_length CHECK (octet_length(name) BETWEEN 1 AND 63),
    CONSTRAINT event_label_value_length CHECK (octet_length(value) BETWEEN 1 AND 255)
);
CREATE INDEX event_label_value_idx ON event_label (name, value, event_id);

-- A program of before erases and prunes events without their labels, which may say whose events they were.
CREATE FUNCTION remove_event_labels() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    EXECUTE format('DELETE FROM %I.event_label WHERE event_id = $1', TG_TABLE_SCHEMA) USING OLD.id;
    RETURN NULL;
END
$body$;
CREATE TRIGGER inbox_event_erased_labels AFTER UPDATE OF class ON inbox_event FOR EACH ROW
    WHEN (NEW.class = 'erased' AND current_setting('oncegate.labels', true) IS DISTINCT FROM 'known') EXECUTE FUNCTION remove_event_labels();
CREATE TRIGGER inbox_event_pruned_labels AFTER DELETE ON inbox_event FOR EACH ROW
    WHEN (current_setting('oncegate.labels', true) IS DISTINCT FROM 'known') EXECUTE FUNCTION remove_event_labels();
