package control

import (
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// MetadataKind is a kind of metadata: a fact about an event that is not its content, or a value that is computed from content.
type MetadataKind string

// The kinds. A field of a response names its kind in the tag shows, and a field of a request in the tag searches.
const (
	MetadataEventID       MetadataKind = "event_id"
	MetadataHash          MetadataKind = "hash"
	MetadataLength        MetadataKind = "length"
	MetadataMember        MetadataKind = "member"
	MetadataLabel         MetadataKind = "label"
	MetadataSequenceKey   MetadataKind = "sequence_key"
	MetadataNumber        MetadataKind = "sequence_number"
	MetadataKey           MetadataKind = "key"
	MetadataAddress       MetadataKind = "address"
	MetadataURL           MetadataKind = "url"
	MetadataPeer          MetadataKind = "peer"
	MetadataContent       MetadataKind = "content"
	MetadataConfiguration MetadataKind = "configuration"
)

// MetadataRow says who sees one kind of metadata, and who may search by it.
type MetadataRow struct {
	Kind MetadataKind

	// What describes the kind for people.
	What string

	// See is the scope that shows the values in full. Without names what a caller without that scope sees instead.
	See     Scope
	Without string

	// Search is the scope that a search by a value needs, and Searches names the searches. Search is empty if no operation
	// searches by it.
	Search   Scope
	Searches string

	// ofContent reports whether a value was made of content. See and Search apply to such values alone; the others need
	// ReadMetadata. Nil applies them to all values.
	ofContent func(value string) bool
}

// Metadata is the table of who sees which metadata and who searches by it. Every response is masked and every request is
// checked by it, in [Operation.Run]. A search by a value needs the scope that shows the value, because a caller who may
// search can guess values until one is found.
func Metadata() []MetadataRow { return metadata }

var metadata = []MetadataRow{
	{
		Kind: MetadataEventID, What: "An event id that contains a hash of content: if the sender sends no id, if the event is unusable, or if it is an admitted conflict",
		See: ReadPayload, Without: "the id without its hash, such as `sha256:…`", Search: ReadPayload, Searches: "`event_id`, references", ofContent: inbox.IDOfContent,
	},
	{
		Kind: MetadataHash, What: "The hash of a body, of a conflicting payload, or of a suppressed address",
		See: ReadPayload, Without: "nothing",
	},
	{
		Kind: MetadataLength, What: "The length of a body or payload",
		See: ReadPayload, Without: "the length, rounded up to a power of two",
	},
	{
		Kind: MetadataMember, What: "The names of members, such as the paths in which a conflict differs",
		See: ReadPayload, Without: "nothing",
	},
	{
		Kind: MetadataLabel, What: "The value of a label",
		See: ReadPayload, Without: "the name of the label", Search: ReadPayload, Searches: "`label`",
	},
	{
		Kind: MetadataSequenceKey, What: "The key of a sequence",
		See: ReadPayload, Without: "the number of the stream", Search: ReadPayload, Searches: "`key` of streams and of undecided effects, `source/route/key`",
	},
	{
		Kind: MetadataKey, What: "An idempotency key that contains a hash of content, because the route has a recipe or the event id contains one; a Message-ID",
		See: ReadPayload, Without: "nothing", Search: ReadPayload, Searches: "`key` of effects, references", ofContent: keyOfContent,
	},
	{
		Kind: MetadataAddress, What: "A person's address: a recipient or a suppressed address",
		See: ReadPayload, Without: "nothing", Search: ReadPayload, Searches: "`suppressions/check`",
	},
	{
		Kind: MetadataURL, What: "The query in the URL of a refused delivery",
		See: ReadPayload, Without: "the path",
	},
	{
		Kind: MetadataContent, What: "Content: bodies, values of headers, results, replies of targets, subjects, differences, and requests that would be sent",
		See: ReadPayload, Without: "nothing", Search: ReadPayload, Searches: "`text`",
	},
	{
		Kind: MetadataNumber, What: "A sequence number",
		See: ReadMetadata,
	},
	{
		Kind: MetadataPeer, What: "The network address that a refused delivery came from",
		See: ReadMetadata,
	},
	{
		Kind: MetadataConfiguration, What: "Any other event id or idempotency key; types, states, reasons, times, counts, and names from the configuration",
		See: ReadMetadata, Search: ReadMetadata, Searches: "filters of the same names, references",
	},
}

// rowOf returns the row of a kind. An unknown kind counts as content, so that a tag with a mistake shows nothing.
func rowOf(kind MetadataKind) *MetadataRow {
	content := 0
	for i := range metadata {
		switch metadata[i].Kind { //nolint:exhaustive // only two matter
		case kind:
			return &metadata[i]
		case MetadataContent:
			content = i
		}
	}
	return &metadata[content]
}

// keyOfContent reports whether a text is an idempotency key that is made of a recipe's key, or a Message-ID.
func keyOfContent(key string) bool {
	return read.IsKeyReference(key) && !strings.HasPrefix(strings.TrimSpace(key), "og1_")
}
