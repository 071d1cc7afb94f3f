-- safe because: only "migrate down" runs it, which asks for the target version by name. The digests are made of keys that stay.
ALTER TABLE effect_attempt DROP COLUMN key_digest;
