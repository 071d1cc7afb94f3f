-- The routes whose effects a process carries out: a process that meets an effect of
-- another route looks here whether one of the others does. NULL for a process of an
-- earlier version, which does not say.
ALTER TABLE node ADD COLUMN route_ids int[];
