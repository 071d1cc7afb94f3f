-- oncegate:oldest 39
-- The idempotency key of an effect whose route has a recipe is made of what the recipe gives. event_key is then the key that was
-- made of the event and the route before; NULL where idempotency_key is that.
ALTER TABLE effect ADD COLUMN event_key text;
