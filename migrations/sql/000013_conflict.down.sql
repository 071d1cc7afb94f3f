-- safe because: only "migrate down" runs it, which asks for the target version by name.
DROP TABLE conflict;
