-- What a route led to in each of its versions, so that a plan can say what an
-- effect of an older one was made by. Never changed, never pruned: a row for
-- each change of the configuration.
CREATE TABLE route_version (
    route_id     int NOT NULL,
    version      int NOT NULL,
    target       text NOT NULL,
    kind         text NOT NULL,
    definition   jsonb NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT route_version_pkey PRIMARY KEY (route_id, version)
);

-- What is known of the versions in use. Of those before them nothing is.
INSERT INTO route_version (route_id, version, target, kind) SELECT id, version, target, kind FROM route;
