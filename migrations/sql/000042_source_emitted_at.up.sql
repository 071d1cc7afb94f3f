-- oncegate:oldest 41
-- safe because: the times that relays gave to batches ordered nothing but the next ones, and the gate numbers them since migration 41.
ALTER TABLE source DROP COLUMN emitted_at;
