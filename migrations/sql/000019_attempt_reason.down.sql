ALTER TABLE effect_attempt DROP COLUMN reason;
