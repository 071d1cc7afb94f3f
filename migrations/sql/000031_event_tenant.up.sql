-- oncegate:oldest 22
-- Who an event belongs to: the tenant of the credential that made it, or else of its source when it was recorded. Null, also
-- of events that a program of before records, is whoever the source belongs to now.
ALTER TABLE inbox_event ADD COLUMN tenant text;
