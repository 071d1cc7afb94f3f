-- oncegate:oldest 41
-- The first 16 bytes of the SHA-256 of the idempotency key under which the attempt was made. A Message-ID begins with them, so that one
-- index finds effects by both. They stand with the attempt because an effect that is sent again under a new key must be found by the
-- former key too, and because the gate writes no attempts. The key itself is made of hashes and is shown as metadata, so that its hash
-- tells nothing more. NULL: nothing was sent, or the event was erased.
ALTER TABLE effect_attempt ADD COLUMN key_digest bytea;
CREATE INDEX effect_attempt_key_idx ON effect_attempt (key_digest, effect_id) WHERE key_digest IS NOT NULL;
