-- duplicate_of: the effect that owned the key when this one asked for it. The
-- key may pass to another owner later, so it is kept here.
-- unknown_since: when the first attempt began whose outcome at a target that
-- deduplicates is not known: from then on the target may hold our key, and
-- forgets it after its window.
ALTER TABLE effect
    ADD COLUMN duplicate_of uuid,
    ADD COLUMN unknown_since timestamptz,
    ADD CONSTRAINT effect_duplicate_of CHECK ((state = 'duplicate') = (duplicate_of IS NOT NULL)) NOT VALID;
