-- What emit takes is bounded, and its order can be told.

-- The largest payload that emit takes for the source, in bytes; the owner of the schema may change it. emit_ordered is
-- set from the configuration: a route of the source carries effects out in the order of arrival. emitted_at is the
-- last time of arrival that was given to an emitted event of such a source.
ALTER TABLE source
    ADD COLUMN emit_limit int NOT NULL DEFAULT 1048576,
    ADD COLUMN emit_ordered boolean NOT NULL DEFAULT false,
    ADD COLUMN emitted_at timestamptz,
    ADD CONSTRAINT source_emit_limit CHECK (emit_limit BETWEEN 1 AND 67108864);

-- position is the row's place in the order of commits; it is given to ordered rows when their transaction commits. A
-- row that can never be admitted stays, refused, until somebody has looked at it.
ALTER TABLE outbox
    ADD COLUMN ordered boolean NOT NULL DEFAULT false,
    ADD COLUMN position bigint,
    ADD COLUMN refused_at timestamptz,
    ADD COLUMN refusal text,
    ADD CONSTRAINT outbox_refused CHECK ((refused_at IS NULL) = (refusal IS NULL)),
    ADD CONSTRAINT outbox_refusal CHECK (refusal IN ('source', 'event_id', 'type', 'too_large'));
CREATE SEQUENCE outbox_position;
CREATE INDEX outbox_ordered_idx ON outbox (source, position, id) WHERE ordered AND refused_at IS NULL;
CREATE INDEX outbox_refused_idx ON outbox (id) WHERE refused_at IS NOT NULL;

DO $$
BEGIN
    EXECUTE format($emit$
CREATE OR REPLACE FUNCTION %1$I.emit(source text, event_id text, type text, payload jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
DECLARE
    opened  %1$I.source;
    content bytea;
BEGIN
    SELECT s.* INTO opened FROM %1$I.source s WHERE s.name = emit.source AND s.emit;
    IF NOT FOUND THEN
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
    VALUES (emit.source, emit.event_id, emit.type, content, opened.emit_ordered);
END
$body$
$emit$, current_schema());

    -- Runs when the caller's transaction commits. The lock is held until the commit is visible, so that positions are
    -- given in the order of commits; those of one transaction in the order of its calls. One lock for all sources, so
    -- that two transactions which emit to the same two sources cannot wait for each other.
    EXECUTE format($place$
CREATE FUNCTION %1$I.outbox_place() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
BEGIN
    PERFORM pg_advisory_xact_lock(1869506928, hashtext(%1$L));
    UPDATE %1$I.outbox o SET position = nextval('%1$I.outbox_position') WHERE o.id = NEW.id;
    RETURN NULL;
END
$body$
$place$, current_schema());
END $$;
REVOKE ALL ON FUNCTION outbox_place() FROM PUBLIC;

CREATE CONSTRAINT TRIGGER outbox_place AFTER INSERT ON outbox
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.ordered) EXECUTE FUNCTION outbox_place();
