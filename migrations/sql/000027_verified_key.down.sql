-- safe because: they are copies of what senders publish, and are fetched again.
DROP TABLE verified_key;
