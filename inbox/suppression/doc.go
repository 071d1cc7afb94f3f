// Package suppression keeps the addresses to which no message is sent, because they bounced, complained or unsubscribed, or
// because somebody said so.
//
// Call [New]. [Store.Add] and [Store.Remove] are for people and write the audit; [Store.AddTx] is for an effect, which suppresses
// what a bounce names in the transaction that settles it. [Store.Suppressed] is asked just before a message is sent,
// [Store.Check] by people, and [Store.List] shows the entries in pages.
//
// An entry is found by the digest of its address in normal form ([Normalize]). With a keyring the digest is an HMAC under a secret
// of the installation, and the address itself is sealed like a body, so that whoever has the tables can read and guess nothing.
// Without a keyring the digest is a plain hash. An address that was suppressed before there was a keyring stays suppressed.
// Where Config.HashOnly is set, no address is kept at all.
package suppression
