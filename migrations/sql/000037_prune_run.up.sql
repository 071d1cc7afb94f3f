-- oncegate:oldest 22
-- What passes of prune have removed. A pass that came to its end, removed nothing and was told to include nothing leaves no row.
CREATE TABLE prune_run (
    id          uuid NOT NULL,        -- its time is that of the beginning
    ended_at    timestamptz NOT NULL,
    complete    boolean NOT NULL,
    removed     jsonb NOT NULL,       -- rows, by table
    partitions  text[] NOT NULL,      -- days of bodies
    kept        bigint NOT NULL,
    left_behind bigint NOT NULL,      -- past their horizon and still needed
    contended   text[] NOT NULL,      -- walks that others' locks ended
    include     text[] NOT NULL,
    actor       text,                 -- NULL: it ran by itself
    CONSTRAINT prune_run_pkey PRIMARY KEY (id)
);
