-- safe because: only "migrate down" runs it, which asks for the target version by name.
DROP INDEX replay_item_effect_idx;
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id) WHERE outcome IS NULL;
ALTER TABLE replay_item
    DROP CONSTRAINT replay_item_outcome, DROP CONSTRAINT replay_item_left_out, DROP CONSTRAINT replay_item_action,
    DROP COLUMN left_out, DROP COLUMN verdict, DROP COLUMN asked_id, DROP COLUMN route_id;
DROP INDEX replay_open_idx;
ALTER TABLE replay DROP COLUMN next_at, DROP COLUMN job_id;
ALTER TABLE inbox_event DROP COLUMN discarded_at;
DROP INDEX effect_dead_idx;
ALTER TABLE effect DROP CONSTRAINT effect_fresh_trigger, DROP COLUMN fresh_trigger;
