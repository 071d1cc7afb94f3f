-- safe because: it is refused while a stream is known by a hash under a secret, which a program of before could not make.
DO $$
BEGIN
    IF EXISTS (SELECT FROM order_definition WHERE secret_id IS NOT NULL) THEN
        RAISE EXCEPTION 'streams are known by hashes under a secret' USING HINT = 'Restore the backup of before the upgrade instead.';
    END IF;
END $$;
DROP TRIGGER order_definition_plain_key ON order_definition;
DROP TRIGGER stream_plain_key ON stream;
DROP FUNCTION refuse_plain_sequence_key();
ALTER TABLE order_definition DROP COLUMN secret_id;
DROP TABLE order_secret;
