-- oncegate:oldest 22
-- Where an attempt of unknown outcome was sent, and how keys were made: an effect is not sent to a second target, and a
-- changed recipe does not repeat what happened under the old one, unless somebody says so.

-- To which target a configuration sends the effects of each route, {"<route id>": "<target>"}. Lease tokens name the row.
CREATE TABLE routing (
    id         int GENERATED ALWAYS AS IDENTITY,
    digest     bytea NOT NULL,
    targets    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT routing_pkey PRIMARY KEY (id),
    CONSTRAINT routing_digest_key UNIQUE (digest)
);
-- The lease token of the first attempt that may have happened.
ALTER TABLE effect ADD COLUMN unknown_lease uuid;

-- The recipes that the keys of each route were made by.
CREATE TABLE key_recipe (
    id         bigint GENERATED ALWAYS AS IDENTITY,
    route_id   int NOT NULL,
    digest     bytea NOT NULL,
    version    int NOT NULL,
    words      text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT key_recipe_pkey PRIMARY KEY (id),
    CONSTRAINT key_recipe_key UNIQUE (route_id, digest),
    CONSTRAINT key_recipe_route_fkey FOREIGN KEY (route_id) REFERENCES route (id),
    CONSTRAINT key_recipe_digest_length CHECK (octet_length(digest) = 32)
);
