-- safe because: the counts are for people and no decision depends on them, and labels are made of payloads only to find them.
DROP TRIGGER inbox_event_pruned_labels ON inbox_event;
DROP TRIGGER inbox_event_erased_labels ON inbox_event;
DROP FUNCTION remove_event_labels();
DROP TABLE event_label;
DROP TABLE stat_completeness;
DROP TABLE stat_flush;
DROP TABLE stat_source;
DROP TABLE stat_hour;
DROP TABLE stat_minute;
