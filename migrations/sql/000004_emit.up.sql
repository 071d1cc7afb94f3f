-- A source is open to emit only if the configuration says so: a role that may
-- call the function must not be able to take the keys of a provider.
ALTER TABLE source ADD COLUMN emit boolean NOT NULL DEFAULT false;

-- The target said that it knew the key: what it did, an earlier attempt did.
ALTER TABLE effect_attempt ADD COLUMN recognised boolean NOT NULL DEFAULT false;

-- Appends to the outbox in the caller's own transaction; a relay admits the row
-- after the commit. What could never be admitted is refused here, where the
-- caller sees it. The schema is that of the search path, so the function is made
-- by a statement that can name it: SECURITY DEFINER needs a fixed path.
DO $$
BEGIN
    EXECUTE format($emit$
CREATE FUNCTION %1$I.emit(source text, event_id text, type text, payload jsonb) RETURNS void
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

-- Functions are open to everybody unless told otherwise.
REVOKE ALL ON FUNCTION emit(text, text, text, jsonb) FROM PUBLIC;

-- Whose duplicates are to hear what their owner was found to be.
CREATE INDEX effect_duplicate_of_idx ON effect (duplicate_of) WHERE duplicate_of IS NOT NULL;

-- What a probe walks: few rows, beside any number of dead ones.
CREATE INDEX effect_indeterminate_idx ON effect (route_id, id) WHERE state = 'indeterminate';
