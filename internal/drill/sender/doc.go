// Package sender delivers signed events as providers do: some several times at once, some again later, some with another
// payload under a known id, some with a wrong signature, and some out of their order. What was not acknowledged is
// delivered again. Everything goes into a [ledger.Sent].
package sender
