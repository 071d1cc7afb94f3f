-- safe because: the numbers that were given are in the effects.
DROP SEQUENCE effect_arrival;
