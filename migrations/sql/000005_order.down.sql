DROP INDEX effect_held_idx, effect_open_idx;
ALTER TABLE stream DROP COLUMN warned_at;
ALTER TABLE effect DROP COLUMN filtered;
