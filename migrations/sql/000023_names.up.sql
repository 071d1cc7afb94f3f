-- oncegate:oldest 22
-- Sources and routes can be renamed, and keep what they have.

-- key_name is the name that idempotency keys, sequence keys and rows of the outbox are made with: the one under which
-- the row was first registered. NULL is the name itself: the row was never renamed. providers are those that the source
-- was said to have had with the same event ids.
ALTER TABLE source
    ADD COLUMN key_name text,
    ADD COLUMN providers text[] NOT NULL DEFAULT '{}';
ALTER TABLE route ADD COLUMN key_name text;
-- Two rows that make their keys with one name would make the same keys.
CREATE UNIQUE INDEX source_key_name_key ON source ((coalesce(key_name, name)));
CREATE UNIQUE INDEX route_key_name_key ON route (source_id, (coalesce(key_name, name)));

-- Every renaming there was: the row had the name, and was then called into. route_id is NULL for a source. A process
-- that starts with an earlier configuration finds its names here, and a renaming that was applied is not applied again.
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

-- An earlier version of the program knows nothing of renamings: started with an earlier configuration, it would make
-- the old name anew, and every event of it would be new again. It must fail instead. Whoever knows the table says so
-- for its transaction.
CREATE FUNCTION refuse_past_name() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
    renamed text;
BEGIN
    IF current_setting('oncegate.names', true) = 'known' THEN
        RETURN NEW;
    END IF;
    IF TG_TABLE_NAME = 'source' THEN
        EXECUTE format('SELECT s.name FROM %1$I.past_name p JOIN %1$I.source s ON s.id = p.source_id
            WHERE p.route_id IS NULL AND p.name = $1 AND NOT EXISTS (SELECT FROM %1$I.source c WHERE c.name = $1)
            ORDER BY p.id DESC LIMIT 1', TG_TABLE_SCHEMA) INTO renamed USING NEW.name;
    ELSE
        EXECUTE format('SELECT r.name FROM %1$I.past_name p JOIN %1$I.route r ON r.id = p.route_id
            WHERE p.source_id = $2 AND p.name = $1
                AND NOT EXISTS (SELECT FROM %1$I.route c WHERE c.source_id = $2 AND c.name = $1)
            ORDER BY p.id DESC LIMIT 1', TG_TABLE_SCHEMA) INTO renamed USING NEW.name, NEW.source_id;
    END IF;
    IF renamed IS NOT NULL THEN
        RAISE EXCEPTION '% % was renamed to %', TG_TABLE_NAME, NEW.name, renamed
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Start with the configuration that has the new name.';
    END IF;
    RETURN NEW;
END
$body$;
CREATE TRIGGER source_past_name BEFORE INSERT ON source FOR EACH ROW EXECUTE FUNCTION refuse_past_name();
CREATE TRIGGER route_past_name BEFORE INSERT ON route FOR EACH ROW EXECUTE FUNCTION refuse_past_name();

-- emit takes the names of the past as well, and writes the one that never changes.
DO $$
BEGIN
    EXECUTE format($emit$
CREATE OR REPLACE FUNCTION %1$I.emit(source text, event_id text, type text, payload jsonb) RETURNS void
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
END $$;
