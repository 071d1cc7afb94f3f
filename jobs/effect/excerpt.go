package effect

// MaxExcerpt bounds what is kept of what a target said, in bytes.
const MaxExcerpt = 2048
