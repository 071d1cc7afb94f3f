-- Whether a person decided that an effect takes part in its order although another one
-- has its number.
ALTER TABLE effect ADD COLUMN order_waived boolean NOT NULL DEFAULT false;
