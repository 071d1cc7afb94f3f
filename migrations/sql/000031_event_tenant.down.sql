-- safe because: a tenant is a label for people. Events then belong to the tenant of their source again.
ALTER TABLE inbox_event DROP COLUMN tenant;
