-- safe because: it only says what was called a moment ago.
DROP TABLE recent_call;
