-- safe because: only "migrate down" runs it, which asks for the target version by name.
DROP INDEX effect_indeterminate_idx, effect_duplicate_of_idx;
DROP FUNCTION emit(text, text, text, jsonb);
ALTER TABLE effect_attempt DROP COLUMN recognised;
ALTER TABLE source DROP COLUMN emit;
