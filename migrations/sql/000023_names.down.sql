-- safe because: only "migrate down" runs it. What renamed rows have stays with their new names, but their keys are then made
-- with those: do not go down while deliveries of renamed sources may come again.
DROP TRIGGER route_past_name ON route;
DROP TRIGGER source_past_name ON source;
DROP FUNCTION refuse_past_name();
DROP TABLE past_name;
ALTER TABLE route DROP COLUMN key_name;
ALTER TABLE source DROP COLUMN key_name, DROP COLUMN providers;
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
END $$;
