-- oncegate:oldest 22
-- Sequence keys are personal data more often than not, so a keyring seals them like payloads.

-- The key as people see it: in plain, or sealed, or neither once it was erased.
ALTER TABLE stream
    ADD COLUMN key_label_sealed bytea,
    ADD COLUMN key_label_key_id int,
    ADD CONSTRAINT stream_key_label CHECK (key_label IS NULL OR key_label_sealed IS NULL) NOT VALID;

-- The sequence key and number of a payload that conflicts with its event. Where they are sealed, the plain columns are
-- empty: a program of the version before that admits the payload treats it as one without a key.
ALTER TABLE conflict
    ADD COLUMN sequence_sealed bytea,
    ADD COLUMN sequence_key_id int;
