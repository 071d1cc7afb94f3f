-- safe because: it only says where the data was written; brought up again, the data counts as written where it is.
DROP TABLE database_history;
