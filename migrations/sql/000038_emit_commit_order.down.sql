-- safe because: only "migrate down" runs it, which asks for the target version by name. Rows keep their positions, which the
-- programs of before read for ordered sources alone.
DROP TRIGGER outbox_place ON outbox;
DROP INDEX outbox_place_idx;
CREATE INDEX outbox_ordered_idx ON outbox (source, position, id) WHERE ordered AND refused_at IS NULL;
DO $$
BEGIN
    EXECUTE format($place$
CREATE OR REPLACE FUNCTION %1$I.outbox_place() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
BEGIN
    PERFORM pg_advisory_xact_lock(1869506928, hashtext(%1$L));
    UPDATE %1$I.outbox o SET position = nextval('%1$I.outbox_position') WHERE o.id = NEW.id;
    RETURN NULL;
END
$body$
$place$, current_schema());
END $$;
CREATE CONSTRAINT TRIGGER outbox_place AFTER INSERT ON outbox
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.ordered) EXECUTE FUNCTION outbox_place();
