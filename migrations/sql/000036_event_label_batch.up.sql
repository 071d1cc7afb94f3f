-- oncegate:oldest 22
-- Labels of one commit of the gate, before they are in event_label: one row without an index on them, since a row and two index
-- entries for each label cost the gate a third of what it can take. They are found in both tables, and an indexer moves them.
CREATE TABLE event_label_batch (
    id         uuid NOT NULL, -- of one of the events
    event_id   uuid[] NOT NULL,
    name       text[] NOT NULL,
    value      bytea[] NOT NULL,
    secret_id  uuid, -- as in event_label
    CONSTRAINT event_label_batch_pkey PRIMARY KEY (id),
    CONSTRAINT event_label_batch_length CHECK (cardinality(event_id) = cardinality(name) AND cardinality(event_id) = cardinality(value))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- They live for less than a second: to compress them costs more than to write them.
ALTER TABLE event_label_batch
    ALTER event_id SET STORAGE EXTERNAL, ALTER name SET STORAGE EXTERNAL, ALTER value SET STORAGE EXTERNAL;

-- A program of before removes the labels of the events that it erases and prunes from event_label only.
CREATE OR REPLACE FUNCTION remove_event_labels() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    EXECUTE format('WITH gone AS (DELETE FROM %1$I.event_label_batch WHERE $1 = ANY (event_id) RETURNING *) '
        'INSERT INTO %1$I.event_label (event_id, name, value, secret_id) SELECT k.*, g.secret_id '
        'FROM gone g CROSS JOIN LATERAL unnest(g.event_id, g.name, g.value) AS k (event_id, name, value) '
        'ON CONFLICT DO NOTHING', TG_TABLE_SCHEMA) USING OLD.id;
    EXECUTE format('DELETE FROM %I.event_label WHERE event_id = $1', TG_TABLE_SCHEMA) USING OLD.id;
    RETURN NULL;
END
$body$;
CREATE OR REPLACE TRIGGER inbox_event_erased_labels AFTER UPDATE OF class ON inbox_event FOR EACH ROW
    WHEN (NEW.class = 'erased' AND current_setting('oncegate.labels', true) IS DISTINCT FROM 'batched') EXECUTE FUNCTION remove_event_labels();
CREATE OR REPLACE TRIGGER inbox_event_pruned_labels AFTER DELETE ON inbox_event FOR EACH ROW
    WHEN (current_setting('oncegate.labels', true) IS DISTINCT FROM 'batched') EXECUTE FUNCTION remove_event_labels();
