-- oncegate:oldest 41
-- On which cluster and timeline the installation's data was written. The last row is where it is now. A copy of the tables in another
-- cluster, or made anew in the same one, finds a row that does not name it.
CREATE TABLE database_history (
    id                bigint GENERATED ALWAYS AS IDENTITY,
    system_identifier bigint NOT NULL,
    table_oid         oid NOT NULL,         -- this table's own: a dump that is restored gets another one
    timeline          bigint NOT NULL,
    position          pg_lsn NOT NULL,      -- when the row was written
    switched_at       pg_lsn,               -- up to where the timeline before was replayed; NULL is not known
    last_job          bigint NOT NULL,      -- effects whose job has a higher number came later
    verdict           text NOT NULL,
    marked            bigint NOT NULL DEFAULT 0, -- effects that became indeterminate
    began_at          timestamptz NOT NULL DEFAULT now(),
    decided_at        timestamptz,
    finished_at       timestamptz,          -- NULL: nothing may be carried out yet
    CONSTRAINT database_history_pkey PRIMARY KEY (id),
    CONSTRAINT database_history_place UNIQUE (system_identifier, table_oid, timeline),
    CONSTRAINT database_history_verdict CHECK (verdict IN ('first', 'undecided', 'whole', 'restored', 'undeclared', 'moved', 'copy'))
);
