ALTER TABLE effect DROP COLUMN unknown_before;
