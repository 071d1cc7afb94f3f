package effect

// MaxExcerpt bounds how much of a target's reply or error is kept, in bytes.
const MaxExcerpt = 2048
