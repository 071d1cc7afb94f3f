// Package providers is the way in: it turns a request, the source's secrets and the
// time of receipt into a verified [Delivery], or says why it cannot.
//
// Take a provider from package catalog, or read one of your own with [ParseOver]. Give it the
// settings of one source with [Provider.Bind], and check the secrets with [Provider.CheckSecrets].
// Then, for each request:
//
//   - [Provider.Handshake] answers what tests or registers the endpoint.
//   - [Provider.Verify] gives the delivery and its events; its error is a [*Refusal] if the
//     request is not authentic.
//   - [Provider.Answer] is what the sender is told.
//   - [Provider.Diagnose] says of a refused request what is probably configured wrongly.
//   - [Provider.Sign] makes a delivery for a test.
//
// The package is pure: it opens no socket, reads no clock, touches no storage and knows
// nothing of HTTP frameworks, so a delivery recorded years ago verifies in a test today.
//
// A provider is a YAML file of package catalog, whose shape is [Spec]; the verification families it
// names are Go in this package, and what data cannot express is in package scheme.
//
// The package has more files than others, for one reason: verification, signing and diagnosis read
// the same compiled spec, and must agree about each part of a signature. A room of its own for
// one of them would have to export the inside of the others. What needs no spec is elsewhere: the
// YAML in internal/yamltree, the JSON in internal/jsonspan. The files are named by the question that
// they answer: spec_* for what a provider may say, verify_* and signature_* for the proof,
// extract_*, identity_* and batch_* for the events, handshake_*, sign_* and diagnose_*.
package providers
