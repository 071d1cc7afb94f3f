-- What a target answered may repeat what it was sent. With a keyring the excerpt is
-- stored here, sealed, and the text column stays empty.
ALTER TABLE effect_attempt
    ADD COLUMN excerpt_sealed bytea,
    ADD COLUMN excerpt_key_id int;
