-- oncegate:oldest 22
-- Sequence keys are hashed under a secret of the installation: whoever has the tables could otherwise try email addresses
-- until the hash of one fits.

-- The secrets, sealed with the keyring. They are never rotated, since a stream is known by the hash of its key; only what
-- seals them is.
CREATE TABLE order_secret (
    id          uuid NOT NULL,
    secret      bytea NOT NULL,
    key_id      int NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_secret_pkey PRIMARY KEY (id)
);

-- NULL: the hashes of the definition's keys are plain ones. Given once, when the definition is made.
ALTER TABLE order_definition
    ADD COLUMN secret_id uuid,
    ADD CONSTRAINT order_definition_secret_fkey FOREIGN KEY (secret_id) REFERENCES order_secret (id);

-- A program of before would hash a key of such a definition without the secret, and the key would have two streams, which
-- do not wait for each other. It is refused when it starts with the definition, and wherever it makes a stream of it.
CREATE FUNCTION refuse_plain_sequence_key() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
    refused boolean;
BEGIN
    IF TG_TABLE_NAME = 'stream' THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.order_definition d WHERE d.route_id = $1 AND d.secret_id IS NOT NULL
            AND (d.id = $2 OR $2 IS NULL AND NOT d.salted))', TG_TABLE_SCHEMA) INTO refused USING NEW.route_id, NEW.definition_id;
    ELSE
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.order_definition d WHERE d.route_id = $1 AND d.digest = $2
            AND d.secret_id IS NOT NULL)', TG_TABLE_SCHEMA) INTO refused USING NEW.route_id, NEW.digest;
    END IF;
    IF refused THEN
        RAISE EXCEPTION 'the sequence keys of route % are hashed under a secret', NEW.route_id
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Start a program that knows migration 28.';
    END IF;
    RETURN NEW;
END
$body$;
CREATE TRIGGER stream_plain_key BEFORE INSERT ON stream FOR EACH ROW
    WHEN (current_setting('oncegate.sequence_secrets', true) IS DISTINCT FROM 'known') EXECUTE FUNCTION refuse_plain_sequence_key();
CREATE TRIGGER order_definition_plain_key BEFORE INSERT ON order_definition FOR EACH ROW
    WHEN (current_setting('oncegate.sequence_secrets', true) IS DISTINCT FROM 'known') EXECUTE FUNCTION refuse_plain_sequence_key();
