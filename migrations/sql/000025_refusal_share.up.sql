-- oncegate:oldest 22
-- Refusals have even shares by diagnosis and by peer, so that whoever floods loses their own.

-- The address that the refusal came from, by IPv6 by its /64 network, and what the diagnosis found, from a closed
-- set. Earlier versions write neither.
ALTER TABLE refusal
    ADD COLUMN peer text,
    ADD COLUMN finding text;
