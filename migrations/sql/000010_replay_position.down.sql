CREATE INDEX replay_item_open_idx ON replay_item (replay_id, position) WHERE outcome IS NULL;
ALTER TABLE replay DROP COLUMN position;
