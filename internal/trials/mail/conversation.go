package mail

// Conversation is what a server heard and said in one connection.
type Conversation struct {
	// Clear are the commands that came before the connection was encrypted, and Secret whether it ever was.
	Clear  []string
	Secret bool

	// Dot is whether the message came to its final dot, and Message what it then was.
	Dot     bool
	Message Message

	// Answered is whether the message was answered with a whole reply, and Taken whether that was 250.
	Answered, Taken bool

	// Refused is whether the server answered 5yz to the message or to what names it: MAIL, RCPT, DATA.
	Refused bool
}

// Message is what a server reads of a message.
type Message struct{ ID, Recipient, From, To, Subject string }

// kept is whether the server may have the message: only a whole negative reply says that it has not.
func (c *Conversation) kept() bool { return c.Dot && (c.Taken || !c.Answered) }
