ALTER TABLE effect_attempt
    DROP COLUMN excerpt_key_id,
    DROP COLUMN excerpt_sealed;
