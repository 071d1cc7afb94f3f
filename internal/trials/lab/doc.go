// Package lab is shared by all trials. It builds the binary, starts a PostgreSQL and measures. What a released drill needs
// too, such as processes, proxies and senders, is in internal/drill/rig.
//
// Start with [NewWorld], which makes a directory, builds the binary and starts a PostgreSQL, and [NewCampaign], which is
// one run in a world: a schema, a configuration, and the targets, proxies and nodes that [Campaign.End] ends. The rest in
// order of use:
//
//   - Commands: [RunCommand].
//   - Faults: [NewDatabaseClock].
//   - The end: [Campaign.Rest], and [ExplainFailure] if the campaign could not be run to its end.
//   - Figures for the benchmark: [CPU], [PeakRSS], [DiscardedBytes].
//
// Each campaign, and not this package, checks its guarantees and decides what counts as broken.
package lab
