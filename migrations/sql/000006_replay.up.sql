-- Why the effect has the attempts it has: the first of them says so.
ALTER TABLE effect
    ADD COLUMN fresh_trigger text,
    ADD CONSTRAINT effect_fresh_trigger CHECK (fresh_trigger IN ('rearm', 'replay', 'manual')) NOT VALID;

-- Dead letters, newest first, beside any number of settled effects.
CREATE INDEX effect_dead_idx ON effect (id) WHERE state = 'dead';

-- An event that is a dead letter has no effect to be skipped.
ALTER TABLE inbox_event ADD COLUMN discarded_at timestamptz;

-- The job that works on a running replay, and when it may take the next items.
ALTER TABLE replay
    ADD COLUMN job_id bigint,
    ADD COLUMN next_at timestamptz;
CREATE INDEX replay_open_idx ON replay (state, id) WHERE state IN ('planning', 'planned', 'running');

-- Nothing has written items before.
-- route_id: where the effect leads, which an effect that is yet to be made cannot say.
-- asked_id: the duplicate that was asked for, if effect_id is its owner.
ALTER TABLE replay_item
    ADD COLUMN route_id int,
    ADD COLUMN asked_id uuid,
    ADD COLUMN verdict text,
    ADD COLUMN left_out text,
    ADD CONSTRAINT replay_item_action CHECK (action IN ('replay', 'new_key', 'create', 'none')),
    ADD CONSTRAINT replay_item_left_out CHECK ((action = 'none') = (left_out IS NOT NULL)),
    ADD CONSTRAINT replay_item_outcome CHECK (outcome IN ('replayed', 'created', 'left_out', 'changed', 'gone', 'body_gone', 'exists'));

-- By the plan too, or finding one effect of a plan reads all of them.
DROP INDEX replay_item_effect_idx;
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id, replay_id) WHERE outcome IS NULL;
