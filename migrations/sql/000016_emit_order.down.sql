-- safe because: only "migrate down" runs it, which asks for the target version by name. Rows that were refused are relayed again.
DO $$
BEGIN
    EXECUTE format($emit$
CREATE OR REPLACE FUNCTION %1$I.emit(source text, event_id text, type text, payload jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
BEGIN
    IF emit.source IS NULL OR NOT EXISTS (SELECT FROM %1$I.source s WHERE s.name = emit.source AND s.emit) THEN
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
    INSERT INTO %1$I.outbox (source, event_id, type, payload)
    VALUES (emit.source, emit.event_id, emit.type, convert_to(emit.payload::text, 'UTF8'));
END
$body$
$emit$, current_schema());
END $$;
DROP TRIGGER outbox_place ON outbox;
DROP FUNCTION outbox_place();
DROP INDEX outbox_refused_idx, outbox_ordered_idx;
DROP SEQUENCE outbox_position;
ALTER TABLE outbox DROP COLUMN ordered, DROP COLUMN position, DROP COLUMN refused_at, DROP COLUMN refusal;
ALTER TABLE source DROP COLUMN emit_limit, DROP COLUMN emit_ordered, DROP COLUMN emitted_at;
