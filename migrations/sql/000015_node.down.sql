-- safe because the rows only describe running processes, which write them again.
DROP TABLE node;
