CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.ledger (
  number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  invoice text NOT NULL,
  cents   bigint NOT NULL,
  booked  timestamptz NOT NULL DEFAULT now()
);

-- Oncegate calls it in the transaction that records that it was called: both are committed, or neither. So nothing here looks
-- whether the invoice is in the ledger already.
CREATE OR REPLACE FUNCTION shop.book(event jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO shop.ledger (invoice, cents)
  SELECT invoice->>'id', (invoice->>'amount_paid')::bigint FROM (SELECT event #> '{body,data,object}') AS of(invoice);
$$;
