CREATE SCHEMA IF NOT EXISTS deploy;
CREATE TABLE IF NOT EXISTS deploy.request (
  repository text NOT NULL,
  branch     text NOT NULL,
  revision   text NOT NULL,
  PRIMARY KEY (repository, branch)
);
