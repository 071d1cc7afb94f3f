// Package mail tries the whole way of a mail, from the call of an operation to the mail server, through the real binary.
//
// [RunHostile] sends one message to each of many mail servers that misbehave once. At each stage of a conversation,
// from the greeting to the farewell, a server answers 451, 550, not at all, with a reset, with half a reply, byte by
// byte, with endless bytes, with bytes that are not a reply, or twice. Where the target requires STARTTLS, one server
// does not offer it, one has a certificate that the client does not trust, and others misbehave at STARTTLS or after
// the final dot. Each server keeps a ledger. [CheckHostile] compares: no server may have two messages of one effect; an
// effect is done only if the server said 250; it is indeterminate exactly if the final dot was sent and not answered;
// it is dead only if the server said 5yz about the message; all others are done in the end; and nothing about a message
// is sent unencrypted where STARTTLS is required.
//
// [RunReal] mails single messages and two lists that share a recipient through the distribution's Postfix, over
// STARTTLS and with a DKIM signature. Each call is made twice at once, each invoice is announced by two events, and the
// process is killed in the middle. [CheckReal] counts the Maildir: every message is there once by Message-ID and
// recipient, messages that the kill left indeterminate at most once, and no others.
//
// The hostile servers are part of the ordinary tests. Postfix needs root, so only ./scripts/mail runs it; that script
// runs both.
package mail
