-- safe because: only "migrate down" runs it, which asks for the target version by name. The keys that are sent stay as they are.
ALTER TABLE effect DROP COLUMN event_key;
