package control

// Operations are all operations, in the order of the API's description.
func Operations() []Definition {
	return []Definition{
		&ListEvents, &ShowEvent,
	}
}
