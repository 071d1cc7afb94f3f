-- safe because: only "migrate down" runs it, which asks for the target version by name.
DROP TABLE audit, replay_item, replay, refusal, outbox, stream, operation_result,
    effect_key, effect_attempt, effect, inbox_body, inbox_event, route, source;
