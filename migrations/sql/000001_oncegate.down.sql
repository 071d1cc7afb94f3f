-- safe because: only "migrate down" runs it, which asks for the target version by name.
DROP TABLE source_move_event, source_move, archive_erasure, archive_object, source_definition_revision, source_definition, database_history, schema_version, node, prune_run, prune_walk, retention_class, reconciliation, stat_flush, stat_source,
    stat_hour, stat_minute, api_request, login_link, console_login, access_token, audit, replay_outcome, replay_item,
    replay, event_label_batch, event_label, outbox, suppression, stream, order_definition, order_secret, effect_key,
    effect_attempt, effect, agent_session, recent_call, operation_follow, operation_result, verified_key, refusal_acknowledgement, refusal,
    conflict, inbox_body, inbox_event, key_recipe, routing, notification_look, notification, pause, past_name, route_version, route, source;
DROP FUNCTION emit(text, text, text, jsonb), outbox_place(), note_event(), refuse_event(), refuse_effect();
DROP SEQUENCE effect_arrival, outbox_position;
