-- The later calls of an operation: what repeats one that failed. Few events have a
-- parent, so the index is small whatever the table holds.
CREATE INDEX inbox_event_parent_idx ON inbox_event (parent) WHERE parent IS NOT NULL;
