-- What became of each item of a run, apart from what was planned: an item is never
-- written again, so that a run adds rows and leaves wide ones alone.
-- made_id: the effect that was made, where the plan could not name one.
CREATE TABLE replay_outcome (
    replay_id  uuid NOT NULL,
    position   bigint NOT NULL,
    outcome    text NOT NULL,
    detail     text,
    made_id    uuid,
    acted_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT replay_outcome_pkey PRIMARY KEY (replay_id, position),
    CONSTRAINT replay_outcome_outcome CHECK (outcome IN ('replayed', 'created', 'left_out', 'changed', 'gone', 'body_gone', 'exists'))
);
INSERT INTO replay_outcome (replay_id, position, outcome, detail, made_id, acted_at)
SELECT replay_id, position, outcome, detail, CASE outcome WHEN 'created' THEN effect_id END, coalesce(acted_at, now())
FROM replay_item
WHERE outcome IS NOT NULL AND left_out IS NULL;

-- Runs that were begun before positions were kept.
UPDATE replay r
SET position = o.position
FROM (SELECT replay_id, max(position) AS position FROM replay_outcome GROUP BY replay_id) o
WHERE o.replay_id = r.id AND r.position < o.position;

-- What a plan may still act on is what it did not leave out and what its run has not
-- come to yet (replay.position).
DROP INDEX replay_item_effect_idx;
CREATE INDEX replay_item_effect_idx ON replay_item (effect_id, replay_id) WHERE left_out IS NULL;

-- safe because the outcomes were copied above, and what is left out says so itself.
ALTER TABLE replay_item
    DROP COLUMN outcome,
    DROP COLUMN detail,
    DROP COLUMN acted_at;
