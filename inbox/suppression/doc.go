// Package suppression keeps the addresses to which no message is sent, because they bounced, complained or
// unsubscribed, or because an operator suppressed them.
//
// Call [New]. [Store.Add] and [Store.Remove] are for people and write the audit; [Store.AddTx] is for an effect, which
// suppresses the addresses of a bounce in the transaction that settles it. Workers call [Store.Suppressed] just before
// a message is sent, people call [Store.Check], and [Store.List] shows the entries in pages.
//
// An entry is found by the digest of its address in normal form ([Normalize]). With a keyring the digest is an HMAC
// under a secret of the installation, and the address itself is sealed like a body, so that a reader of the tables can
// neither read nor guess an address. Without a keyring the digest is a plain hash. An address that was suppressed
// before there was a keyring stays suppressed. If Config.HashOnly is set, no address is kept at all.
package suppression
