CREATE SCHEMA IF NOT EXISTS bank;
CREATE TABLE IF NOT EXISTS bank.refund (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL);

CREATE OR REPLACE FUNCTION bank.refund(call jsonb) RETURNS jsonb LANGUAGE sql AS $$
  INSERT INTO bank.refund (customer, cents) SELECT call #>> '{body,customer}', (call #>> '{body,cents}')::bigint
  RETURNING jsonb_build_object('refund', number);
$$;
