-- oncegate:oldest 41
-- The order of receipt is given by the database, one number after the other for all processes. A program that knows only 40
-- gives effects of mode arrival the time of its own clock as their number, and would mix the two orders.
--
-- A session must not take numbers in advance: they follow each other in the order in which they are asked for.
CREATE SEQUENCE effect_arrival AS bigint CACHE 1;
