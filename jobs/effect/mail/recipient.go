package mail

import (
	"errors"
	netmail "net/mail"
	"strings"
)

var errRecipient = errors.New("to: the recipient is not an address")

// Recipient returns the canonical form of a recipient: the address, with its domain in lower case.
// The part before the @ is unchanged, because only the receiving server knows what it means. A
// display name and surrounding white space are dropped. Text that is not an address is returned
// without the white space around it. Keys are made from this: never change it.
func Recipient(to string) string {
	to = strings.TrimSpace(to)
	parsed, err := parseRecipient(to)
	if err != nil {
		return to
	}
	at := strings.LastIndexByte(parsed.Address, '@')
	return parsed.Address[:at] + strings.ToLower(parsed.Address[at:])
}

// CheckRecipient returns why no message can be made for a recipient. The error does not quote the
// recipient.
func CheckRecipient(to string) error {
	_, err := parseRecipient(to)
	return err
}

func parseRecipient(to string) (*netmail.Address, error) {
	parsed, err := netmail.ParseAddress(to)
	if err != nil || strings.ContainsAny(to, "\r\n") {
		return nil, errRecipient
	}
	return parsed, nil
}

// RecipientOf returns the recipient of a rendered message.
func RecipientOf(message []byte) (string, error) {
	_, to, _, err := envelope(message)
	if err != nil {
		return "", err
	}
	return strings.Trim(to, "<>"), nil
}
