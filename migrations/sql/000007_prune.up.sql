-- How long what belongs to a class is kept, as the configuration said last. A
-- class that left the configuration stays, so that what it left behind still
-- goes.
CREATE TABLE retention_class (
    name           text NOT NULL,
    body           interval NOT NULL,
    tombstone      interval NOT NULL,
    effects        interval NOT NULL,
    refusals       interval NOT NULL,
    audit          interval NOT NULL,
    configured_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT retention_class_pkey PRIMARY KEY (name)
);

-- How long the source's tombstones live: longer than its class says where its
-- provider may deliver an event again for longer. NULL is the class's.
ALTER TABLE source ADD COLUMN tombstone interval;

-- How far each walk of prune has come, so that the next pass goes on there.
CREATE TABLE prune_walk (
    name          text NOT NULL,
    position      text NOT NULL,
    began_at      timestamptz NOT NULL,
    completed_at  timestamptz,
    CONSTRAINT prune_walk_pkey PRIMARY KEY (name)
) WITH (fillfactor = 50);

-- Is the event in a replay; what did replays say of it.
CREATE INDEX IF NOT EXISTS replay_item_event_idx ON replay_item (event_id);

-- The oldest held effect of a route: its key must not go before it.
CREATE INDEX effect_held_idx ON effect (route_id, id) WHERE state = 'held';

-- Vacuum by rows, not by a fifth of a large table: what prune removes is to be
-- room again before the next pass, and the gate's index must stay dense.
ALTER TABLE inbox_event SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE effect SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE effect_attempt SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1);
ALTER TABLE effect_key SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
ALTER TABLE stream SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE operation_result SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
ALTER TABLE refusal SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
ALTER TABLE inbox_body_kept SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
