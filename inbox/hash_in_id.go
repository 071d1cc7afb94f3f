package inbox

import "regexp"

// hashInID finds the parts of an event id that are hashes of content: the digest of a payload, the hash under which an unusable
// event is recorded, and the end of the id of an admitted conflict.
var hashInID = regexp.MustCompile(`(sha256:|~)([0-9a-f]{64}|[0-9a-f]{12})(?:$|[^0-9a-f])`)

// IDOfContent reports whether an event id contains a hash of content.
func IDOfContent(id string) bool { return hashInID.MatchString(id) }

// WithoutHashes replaces the hashes in the event ids that a text contains, for logs and for people who may not see content.
func WithoutHashes(text string) string {
	for {
		at := hashInID.FindStringSubmatchIndex(text)
		if at == nil {
			return text
		}
		text = text[:at[4]] + "…" + text[at[5]:]
	}
}
