package tokens

// FindToken is the statement of every request under a token.
const FindToken = findToken
