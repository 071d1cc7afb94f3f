-- safe because: only "migrate down" runs it, which asks for the target version by name. Do not go down while a failed call may
-- still be resumed: programs of before would carry out two calls that resume one.
DROP TABLE operation_follow;
