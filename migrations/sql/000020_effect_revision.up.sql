-- What a plan saw of each effect: a run sends only what is still as it was seen. Items
-- of plans made before have none.
ALTER TABLE replay_item
    ADD COLUMN effect_state text,
    ADD COLUMN effect_reason text,
    ADD COLUMN effect_revision int;

-- How often the effect has left a state at rest, or a person has decided something
-- about it that leaves it there. Its version counts only how often it was given fresh
-- attempts, and its attempts are numbered by that.
ALTER TABLE effect ADD COLUMN revision int NOT NULL DEFAULT 0;

-- Not validated: what is there already is in the narrower set.
ALTER TABLE replay_outcome
    DROP CONSTRAINT replay_outcome_outcome,
    ADD CONSTRAINT replay_outcome_outcome CHECK (outcome IN ('replayed', 'created', 'left_out', 'changed', 'decided_since', 'gone',
        'body_gone', 'exists')) NOT VALID;
