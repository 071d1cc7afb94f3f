package tokens

// FindToken is the statement that every request with a token runs.
const FindToken = findToken
