ALTER TABLE replay_item RESET (fillfactor);
DROP INDEX replay_item_effect_idx;
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id, replay_id) WHERE outcome IS NULL;
