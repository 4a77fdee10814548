CREATE TABLE IF NOT EXISTS semel_accounts (
    id      text   PRIMARY KEY,
    balance bigint NOT NULL CHECK (balance >= 0)
);
CREATE TABLE IF NOT EXISTS semel_transfers (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source    text        NOT NULL REFERENCES semel_accounts,
    target    text        NOT NULL REFERENCES semel_accounts,
    amount    bigint      NOT NULL CHECK (amount > 0),
    reference text        UNIQUE,
    scope     bytea       NOT NULL,
    key       bytea       NOT NULL,
    once      text        UNIQUE,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
