-- An item's outcome is in no index and has room beside the item, so that a run, which
-- sets it once for each of them, writes no index for it.
DROP INDEX replay_item_effect_idx;
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id, replay_id);
ALTER TABLE replay_item SET (fillfactor = 50);
