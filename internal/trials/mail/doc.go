// Package mail tries the whole way of a mail, from the call of an operation to the mail server, through the real binary.
//
// [RunHostile] sends one message to each of many mail servers that misbehave once: at each stage of a conversation, from
// the greeting to the farewell, each answers 451, 550, nothing, with a reset, half a reply, byte by byte, with bytes that
// never end, with what is no reply, or twice. Where the target requires STARTTLS, one takes it out of its offer, one shows
// a certificate that nobody vouches for, and others misbehave at STARTTLS or after the final dot. Each server keeps a
// ledger. [CheckHostile] compares: no server may have two messages of one effect, done has the server's 250, an effect is
// indeterminate exactly if the final dot was sent and not answered, dead is one only if the server said 5yz about the
// message, all others are done in the end, and nothing about a message is ever said in the clear where STARTTLS is required.
//
// [RunReal] mails single messages and two lists that share a recipient through the distribution's Postfix, over STARTTLS and with a
// DKIM signature, while each call is made twice at once and each invoice is announced by two events, and kills the process
// in the middle. [CheckReal] counts the Maildir: every message is there once by Message-ID and recipient, those that the kill left
// indeterminate at most once, and no others.
//
// The hostile servers are part of the ordinary tests. Postfix runs as root only, by ./scripts/mail, which runs both.
package mail
