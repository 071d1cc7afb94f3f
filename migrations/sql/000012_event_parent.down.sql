DROP INDEX inbox_event_parent_idx;
