ALTER TABLE replay_item
    ADD COLUMN outcome text,
    ADD COLUMN detail text,
    ADD COLUMN acted_at timestamptz,
    ADD CONSTRAINT replay_item_outcome CHECK (outcome IN ('replayed', 'created', 'left_out', 'changed', 'gone', 'body_gone', 'exists'));
UPDATE replay_item SET outcome = 'left_out' WHERE left_out IS NOT NULL;
UPDATE replay_item i
SET outcome = o.outcome, detail = o.detail, acted_at = o.acted_at, effect_id = coalesce(o.made_id, i.effect_id)
FROM replay_outcome o
WHERE o.replay_id = i.replay_id AND o.position = i.position;
DROP TABLE replay_outcome;
DROP INDEX replay_item_effect_idx;
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id, replay_id) WHERE outcome IS NULL;
