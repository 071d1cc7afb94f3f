-- Why an attempt failed. The effect's reason only says, at the end, that no other one
-- follows. Attempts of before have none.
ALTER TABLE effect_attempt ADD COLUMN reason text;
