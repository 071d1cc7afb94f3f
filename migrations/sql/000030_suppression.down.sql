-- safe because: a program of before does not ask it, so that its mail is no different with the table than without. What is in
-- it is lost: export it first with `oncegate suppressions list --output json`.
DROP TABLE suppression;
