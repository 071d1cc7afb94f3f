-- safe because streams of later definitions have keys of their own: an older version
-- decides about them as it does about all others.
ALTER TABLE stream DROP COLUMN definition_id;
DROP TABLE order_definition;
