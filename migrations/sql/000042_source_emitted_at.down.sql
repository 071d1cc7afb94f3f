ALTER TABLE source ADD COLUMN emitted_at timestamptz;
