-- oncegate:oldest 22
-- Which versions of the program may run on this schema. A row is written in the
-- transaction of its migration, so that a program that is older than the migration
-- can read it.
CREATE TABLE schema_version (
    tables      text NOT NULL,
    version     int NOT NULL,
    oldest      int NOT NULL, -- the version of these tables that a program must know to run on this one
    applied_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_version_pkey PRIMARY KEY (tables, version),
    CONSTRAINT schema_version_tables CHECK (tables IN ('oncegate', 'river')),
    CONSTRAINT schema_version_oldest CHECK (oldest BETWEEN 1 AND version)
);

-- The newest versions that each process knows; NULL for a program that does not say.
ALTER TABLE node
    ADD COLUMN schema_known int,
    ADD COLUMN river_known int;
