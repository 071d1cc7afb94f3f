-- safe because: both only say which refusals go first when a source has too many.
ALTER TABLE refusal DROP COLUMN finding, DROP COLUMN peer;
