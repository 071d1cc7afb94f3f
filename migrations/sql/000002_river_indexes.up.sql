-- oncegate:oldest 1
-- River's two GIN indexes and its index on kind serve only River's list filters, which Oncegate does not use. Without them, inserting a job
-- costs 17 % less CPU. A later version of River may create them again, so migrations.RiverVersion is pinned.
DROP INDEX river_job_args_index, river_job_metadata_index, river_job_kind;
