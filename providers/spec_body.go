package providers

// BodySpec says what the body is, once it is verified.
type BodySpec struct {
	// Format is json (the default: anything else is unusable), any (fields are
	// read where there are any) or xml.
	Format string `yaml:"format"`

	// Form lets the body also be application/x-www-form-urlencoded; FormJSON is
	// the form field that then holds the JSON document.
	Form     bool   `yaml:"form"`
	FormJSON string `yaml:"form_json"`

	// Multipart lets the body also be multipart/form-data. Fields named form are
	// then read in its texts; its files are kept with the body and not read.
	Multipart bool `yaml:"multipart"`
}

// SplitSpec makes one delivery several events: all are recorded or none.
type SplitSpec struct {
	// JSON is the path of an array whose elements are the events; "entry.*.changes"
	// is the array changes in every element of the array entry, or the element
	// itself where it has none. Fields named json are then read in the event, those
	// named parent in the element around its array, those named envelope in the
	// body.
	JSON string `yaml:"json"`

	// Form is the form field that holds the JSON document which is split. Offset
	// and length of an event then count the form's encoded bytes.
	Form string `yaml:"form"`

	// Otherwise is what a body without that array is: one (the default: a single
	// event, read as a whole), lines (one JSON document a line), or
	// elements (the elements of the body, which is an array itself).
	Otherwise string `yaml:"otherwise"`

	// ContentType, if it is given, is the media type of the bodies that are split;
	// any other is one event.
	ContentType string `yaml:"content_type"`
}
