-- safe because: a session is for hours, and its engine opens another one; no key depends on it.
DROP TABLE agent_session;
