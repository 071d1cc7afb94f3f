-- How far a run has come: everything up to there has its outcome. Finding the next
-- items reads none that are behind it, whatever the planner knows of outcomes.
ALTER TABLE replay ADD COLUMN position bigint NOT NULL DEFAULT 0;
DROP INDEX replay_item_open_idx;
