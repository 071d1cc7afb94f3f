ALTER TABLE effect DROP CONSTRAINT effect_duplicate_of, DROP COLUMN unknown_since, DROP COLUMN duplicate_of;
