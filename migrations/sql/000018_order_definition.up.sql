-- What a route's order was defined by: its mode, and where key and number come from.
-- Another definition begins new streams. The first one of a route, which is not salted,
-- has the streams that were there before definitions were kept; those of any other have
-- the definition in the hash of their keys, so that no process takes one for the other.
CREATE TABLE order_definition (
    id         bigint GENERATED ALWAYS AS IDENTITY,
    route_id   int NOT NULL,
    digest     bytea NOT NULL,
    salted     boolean NOT NULL,
    -- The definition in words, and the policy as it was configured last under it: what is
    -- held under it is decided by that.
    words      text NOT NULL,
    policy     jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_definition_pkey PRIMARY KEY (id),
    CONSTRAINT order_definition_key UNIQUE (route_id, digest),
    CONSTRAINT order_definition_route_fkey FOREIGN KEY (route_id) REFERENCES route (id),
    CONSTRAINT order_definition_digest_length CHECK (octet_length(digest) = 32)
);

-- NULL is the first definition of the route.
ALTER TABLE stream ADD COLUMN definition_id bigint;
