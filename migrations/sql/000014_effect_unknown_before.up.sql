-- Whether an attempt may have happened of which the key's window no longer counts,
-- since a person had the effect sent again. A dead effect that has not may lose its
-- effect key to the next that asks.
ALTER TABLE effect ADD COLUMN unknown_before boolean NOT NULL DEFAULT false;
