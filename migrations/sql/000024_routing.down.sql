-- safe because: only "migrate down" runs it, and programs of the version before ask for none of it.
DROP TABLE key_recipe;
ALTER TABLE effect DROP COLUMN unknown_lease;
DROP TABLE routing;
