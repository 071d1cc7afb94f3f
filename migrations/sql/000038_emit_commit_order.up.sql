-- oncegate:oldest 38
-- Rows of one event id are admitted in the order in which their transactions committed, on every source. A program
-- that knows only 37 admits several rows at once in any order, so it must not run on this schema.

-- Every row gets a position when its transaction commits, and not only those of sources with a route in order of
-- arrival. Rows that committed before this migration come first, in the order of their ids.
UPDATE outbox SET position = 0 WHERE position IS NULL;
DROP TRIGGER outbox_place ON outbox;
DROP INDEX outbox_ordered_idx;
CREATE INDEX outbox_place_idx ON outbox (source, position, id) WHERE refused_at IS NULL;

DO $$
BEGIN
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
CREATE OR REPLACE FUNCTION %1$I.outbox_place() RETURNS trigger
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

CREATE CONSTRAINT TRIGGER outbox_place AFTER INSERT ON outbox
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION outbox_place();
