-- oncegate:oldest 22
-- Tokens of the API and the console. A token is stored nowhere, only the SHA-256 of its 256 random bits; its first characters
-- are kept so that people can tell which token it is.
CREATE TABLE access_token (
    id            uuid NOT NULL,
    digest        bytea NOT NULL,
    prefix        text NOT NULL,
    name          text NOT NULL,
    scopes        text[] NOT NULL,
    tenant        text,        -- NULL: everybody's
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz, -- NULL: never
    last_used_at  timestamptz, -- written at most once a minute
    revoked_at    timestamptz,
    CONSTRAINT access_token_pkey PRIMARY KEY (id),
    CONSTRAINT access_token_digest_key UNIQUE (digest),
    CONSTRAINT access_token_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT access_token_name_given CHECK (name <> ''),
    CONSTRAINT access_token_tenant_given CHECK (tenant <> ''),
    CONSTRAINT access_token_scopes_given CHECK (cardinality(scopes) > 0),
    CONSTRAINT access_token_ends_later CHECK (expires_at > created_at)
);

-- The audit names a token by its name, so two that may be used at the same time have different ones.
CREATE UNIQUE INDEX access_token_name_idx ON access_token (name) WHERE revoked_at IS NULL;

-- Logins of the console. The value of the cookie is stored nowhere, only its SHA-256.
CREATE TABLE console_login (
    id            uuid NOT NULL,
    digest        bytea NOT NULL,
    actor         text NOT NULL,
    scopes        text[] NOT NULL,
    tenant        text,          -- NULL: everybody's
    method        text NOT NULL, -- token, oidc or link
    token_id      uuid,          -- the token that it began with, and with which it ends
    created_at    timestamptz NOT NULL,
    used_at       timestamptz NOT NULL, -- written at most once a minute
    expires_at    timestamptz NOT NULL, -- however often it is used
    ended_at      timestamptz,
    CONSTRAINT console_login_pkey PRIMARY KEY (id),
    CONSTRAINT console_login_digest_key UNIQUE (digest),
    CONSTRAINT console_login_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT console_login_token_fkey FOREIGN KEY (token_id) REFERENCES access_token (id),
    CONSTRAINT console_login_actor_given CHECK (actor <> ''),
    CONSTRAINT console_login_tenant_given CHECK (tenant <> ''),
    CONSTRAINT console_login_scopes_given CHECK (cardinality(scopes) > 0),
    CONSTRAINT console_login_ends_later CHECK (expires_at > created_at)
);

-- For prune, which removes them from the front.
CREATE INDEX console_login_expiry_idx ON console_login (expires_at);

-- Links that log in once. Using one deletes it.
CREATE TABLE login_link (
    digest        bytea NOT NULL, -- SHA-256 of the link's code
    actor         text NOT NULL,
    scopes        text[] NOT NULL,
    tenant        text, -- NULL: everybody's
    expires_at    timestamptz NOT NULL,
    CONSTRAINT login_link_pkey PRIMARY KEY (digest),
    CONSTRAINT login_link_digest_length CHECK (octet_length(digest) = 32),
    CONSTRAINT login_link_actor_given CHECK (actor <> ''),
    CONSTRAINT login_link_tenant_given CHECK (tenant <> ''),
    CONSTRAINT login_link_scopes_given CHECK (cardinality(scopes) > 0)
);
CREATE INDEX login_link_expiry_idx ON login_link (expires_at);
