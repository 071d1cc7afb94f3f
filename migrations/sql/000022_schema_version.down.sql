-- safe because: programs before it do not read it, and the next "migrate up" writes it again.
ALTER TABLE node
    DROP COLUMN schema_known,
    DROP COLUMN river_known;
DROP TABLE schema_version;
