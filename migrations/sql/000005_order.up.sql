-- filtered: the route does not take the event's type; in mode contiguous its
-- effect only leaves its number behind. warned_at: when the gap was reported.
ALTER TABLE effect ADD COLUMN filtered boolean NOT NULL DEFAULT false;
ALTER TABLE stream ADD COLUMN warned_at timestamptz;

-- What of a key is not settled, in its order: a decision reads the first or the
-- last few of them, however many are settled.
CREATE INDEX effect_open_idx ON effect (route_id, sequence_key_hash, sequence_number, id)
    WHERE sequence_key_hash IS NOT NULL AND state IN ('pending', 'claimed', 'retry', 'held', 'indeterminate');
