-- safe because: only "migrate down" runs it, which asks for the target version by name.
UPDATE replay_outcome SET outcome = 'changed' WHERE outcome = 'decided_since';
ALTER TABLE replay_outcome
    DROP CONSTRAINT replay_outcome_outcome,
    ADD CONSTRAINT replay_outcome_outcome CHECK (outcome IN ('replayed', 'created', 'left_out', 'changed', 'gone', 'body_gone', 'exists'));
ALTER TABLE effect DROP COLUMN revision;
ALTER TABLE replay_item
    DROP COLUMN effect_state,
    DROP COLUMN effect_reason,
    DROP COLUMN effect_revision;
