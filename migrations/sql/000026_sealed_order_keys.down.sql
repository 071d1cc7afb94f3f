-- safe because: only "migrate down" runs it. Streams are known by the hashes of their keys, which stay; the keys of
-- streams are only shown without it.
ALTER TABLE stream DROP COLUMN key_label_key_id, DROP COLUMN key_label_sealed;
-- safe because: a payload whose sequence key was sealed could no longer be admitted in its place, so that the table is
-- left as it is while there is one.
DO $$
BEGIN
    IF EXISTS (SELECT FROM conflict WHERE sequence_sealed IS NOT NULL) THEN
        RAISE EXCEPTION 'table conflict has sealed sequence keys' USING HINT = 'Admit these conflicts, or delete them, first.';
    END IF;
END $$;
ALTER TABLE conflict DROP COLUMN sequence_key_id, DROP COLUMN sequence_sealed;
