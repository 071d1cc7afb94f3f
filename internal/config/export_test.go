package config

import "maps"

// Variables are the environment variables that Oncegate reads.
func Variables() map[string]string { return maps.Clone(variables) }
