-- safe because: what passes have removed is told nowhere else, and nothing depends on it.
DROP TABLE prune_run;
