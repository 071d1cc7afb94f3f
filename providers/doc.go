// Package providers verifies incoming requests: it turns a request, the source's secrets and the
// time of receipt into a verified [Delivery], or returns the reason why it cannot.
//
// Take a provider from package catalog, or parse your own with [ParseOver]. Set the settings of one
// source with [Provider.Bind], and check the secrets with [Provider.CheckSecrets]. Then, for each
// request:
//
//   - [Provider.Handshake] answers a request that tests or registers the endpoint.
//   - [Provider.Verify] returns the delivery and its events. Its error is a [*Refusal] if the
//     request is not authentic.
//   - [Provider.Answer] returns the response to the sender.
//   - [Provider.Diagnose] names the probable mistake in the configuration for a refused request.
//   - [Provider.Sign] makes a delivery for a test.
//
// The package is pure: it opens no socket, reads no clock, uses no storage and depends on no HTTP
// framework, so a delivery recorded years ago verifies in a test today.
//
// A provider is a YAML file of package catalog, whose format is [Spec]. The verification families
// that it names are Go code in this package. Package scheme contains the methods that YAML cannot
// express.
//
// The package has more files than others because verification, signing and diagnosis read the same
// compiled spec, and must agree about each part of a signature. A separate package for one of them
// would force the others to export their internals. Code that needs no spec is elsewhere: the YAML
// in internal/yamltree, the JSON in internal/jsonspan. The prefix of a file's name says what it
// is about: spec_* for the provider's YAML, verify_* and signature_* for the proof, extract_*,
// identity_* and batch_* for the events, handshake_*, sign_* and diagnose_*.
package providers
