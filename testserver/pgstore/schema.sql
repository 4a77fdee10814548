-- One row per key. Durations are computed from clock_timestamp() of this database only.
CREATE TABLE IF NOT EXISTS semel_keys (
    id          uuid        PRIMARY KEY, -- the first 128 bits of SHA-256 over scope and key: the index stays small and flat
    fence       bigint      NOT NULL, -- grows with each new owner
    lease_until timestamptz NOT NULL,
    created_at  timestamptz NOT NULL, -- the first claim
    expires_at  timestamptz NOT NULL, -- of the answer; set by the claim, so the index below stays as it is
    status      integer,              -- of the answer
    state       smallint    NOT NULL, -- 1 pending, 2 completed, 3 unknown, 4 tombstone
    started     boolean     NOT NULL, -- the effect may have begun: never re-run
    owner       bytea       NOT NULL, -- 16 random bytes of the claim
    fingerprint bytea       NOT NULL, -- SHA-256 of the request
    scope       bytea       NOT NULL, -- as it was asked for, for people to look at
    key         bytea       NOT NULL,
    header      bytea,                -- first byte: version of the encoding; then length-prefixed names and values
    body        bytea
) WITH (
    fillfactor = 50, -- room for the settled row beside the claimed one (HOT), most answers being small
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX IF NOT EXISTS semel_keys_expires_at ON semel_keys (expires_at);
