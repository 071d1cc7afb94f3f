package providers

// BodySpec describes the body of a verified request.
type BodySpec struct {
	// Format is json (the default: any other body is unusable), any (fields are read if the body is
	// JSON or a form) or xml.
	Format string `yaml:"format"`

	// Form allows the body to be application/x-www-form-urlencoded. FormJSON is the form field that
	// then contains the JSON document.
	Form     bool   `yaml:"form"`
	FormJSON string `yaml:"form_json"`

	// Multipart allows the body to be multipart/form-data. Fields named form are then read from its
	// texts. Its files are stored with the body and not read.
	Multipart bool `yaml:"multipart"`
}

// SplitSpec splits one delivery into several events. Oncegate records all of them or none.
type SplitSpec struct {
	// JSON is the path of an array whose elements are the events. "entry.*.changes" is the array
	// changes in every element of the array entry, or the element itself if it has no such array.
	// Fields named json are then read from the event, those named parent from the element around
	// its array, and those named envelope from the body.
	JSON string `yaml:"json"`

	// Form is the form field that contains the JSON document to split. Offset and length of an
	// event then count the form's encoded bytes.
	Form string `yaml:"form"`

	// Otherwise says how to read a body without that array: one (the default: a single event),
	// lines (one JSON document in each line), or elements (the elements of the body, which is
	// itself an array).
	Otherwise string `yaml:"otherwise"`

	// ContentType, if present, is the media type of the bodies to split. A body of any other type
	// is one event.
	ContentType string `yaml:"content_type"`
}
