package suppression

// FindDigests is the statement that is run for every message.
var FindDigests = findDigests
