-- safe because it says no more than that a person let an effect run; one that has not
-- run yet is held for a person again.
ALTER TABLE effect DROP COLUMN order_waived;
