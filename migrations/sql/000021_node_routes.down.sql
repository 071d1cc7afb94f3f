-- Wake-ups that were handed over become ordinary ones, which earlier versions know.
UPDATE river_job SET kind = 'effect' WHERE kind LIKE 'effect/%' AND state IN ('available', 'pending', 'retryable', 'running', 'scheduled');
-- safe because the column only describes running processes, which write it again.
ALTER TABLE node DROP COLUMN route_ids;
