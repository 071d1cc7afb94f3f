package inbox

// A W3C trace context of version 00: version, trace id, parent id and flags, in hexadecimal digits and separated by dashes.
const (
	traceparentLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	traceIDStart      = len("00-")
	traceIDEnd        = traceIDStart + 32
)

// TraceID returns the trace id of a stored trace context, as traces have it: 32 hexadecimal digits. It returns "" if the
// event was recorded without a trace context.
func TraceID(traceparent string) string {
	if len(traceparent) != traceparentLength {
		return ""
	}
	return traceparent[traceIDStart:traceIDEnd]
}
