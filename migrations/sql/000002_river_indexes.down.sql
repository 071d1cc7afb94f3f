CREATE INDEX river_job_kind ON river_job USING btree (kind);
CREATE INDEX river_job_args_index ON river_job USING gin (args);
CREATE INDEX river_job_metadata_index ON river_job USING gin (metadata);
