DROP INDEX effect_open_idx;
ALTER TABLE stream DROP COLUMN warned_at;
ALTER TABLE effect DROP COLUMN filtered;
