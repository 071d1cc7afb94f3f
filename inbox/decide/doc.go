// Package decide carries out decisions of people, and of probes in their place: about dead and indeterminate effects
// ([Discard], [Resolve]), streams that cannot proceed ([PassStream]), effects that are held for a person ([EndUndecided]),
// lists that are being sent ([CancelList]), routes that are gone ([ClearRoute]), conflicts ([AdmitConflict]) and sessions of agents ([RevokeAgentSessions]). Each
// decision is committed with its entry in the audit.
//
// It knows the lists from which people choose. It knows neither who may decide, which internal/control checks, nor how an
// effect leaves its state, which only the store of effects does.
package decide
