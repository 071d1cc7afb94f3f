-- safe because: labels that are not in event_label yet are moved there.
LOCK TABLE event_label_batch IN ACCESS EXCLUSIVE MODE;
INSERT INTO event_label (event_id, name, value, secret_id)
SELECT k.*, b.secret_id
FROM event_label_batch b CROSS JOIN LATERAL unnest(b.event_id, b.name, b.value) AS k (event_id, name, value)
ON CONFLICT DO NOTHING;
CREATE OR REPLACE FUNCTION remove_event_labels() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    EXECUTE format('DELETE FROM %I.event_label WHERE event_id = $1', TG_TABLE_SCHEMA) USING OLD.id;
    RETURN NULL;
END
$body$;
CREATE OR REPLACE TRIGGER inbox_event_erased_labels AFTER UPDATE OF class ON inbox_event FOR EACH ROW
    WHEN (NEW.class = 'erased' AND current_setting('oncegate.labels', true) IS DISTINCT FROM 'known') EXECUTE FUNCTION remove_event_labels();
CREATE OR REPLACE TRIGGER inbox_event_pruned_labels AFTER DELETE ON inbox_event FOR EACH ROW
    WHEN (current_setting('oncegate.labels', true) IS DISTINCT FROM 'known') EXECUTE FUNCTION remove_event_labels();
DROP TABLE event_label_batch;
