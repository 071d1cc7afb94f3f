// Package operation answers the callers of operations: it renders results, lets callers wait for them ([Store]), finds
// an earlier call by its key, and opens sessions of agents ([AgentSessions]). It derives the outcome of an event
// ([EventOutcome]) and what a caller should do next ([Next]).
//
// It knows events and effects of package inbox. It changes none of them, and it knows neither the lists that operators
// read nor their decisions.
package operation
