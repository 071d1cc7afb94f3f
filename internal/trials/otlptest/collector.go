// Package otlptest is a collector of OpenTelemetry for tests. It takes traces and metrics over OTLP/HTTP and decodes them with
// the published definitions of the protocol.
package otlptest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Span is a span as the collector got it.
type Span struct {
	TraceID, SpanID, ParentID string // in hexadecimal digits; ParentID is empty for a root
	Name                      string
	Kind                      string // such as SERVER
	Failed                    bool   // its status is an error
	Nanoseconds               uint64 // from its start to its end
	Attributes                map[string]string
	Resource                  map[string]string

	// Text is everything of it in readable form.
	Text string
}

// Collector is a collector that runs until the test ends. It is safe for concurrent use.
type Collector struct {
	// URL is for OTEL_EXPORTER_OTLP_ENDPOINT.
	URL string

	mu      sync.Mutex
	spans   []Span
	metrics map[string]*metrics.Metric
	requests,
	refused int
}

// New starts a collector.
func New(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{metrics: map[string]*metrics.Metric{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		var request collecttraces.ExportTraceServiceRequest
		if c.read(w, r, &request) {
			c.addSpans(request.ResourceSpans)
		}
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		var request collectmetrics.ExportMetricsServiceRequest
		if c.read(w, r, &request) {
			c.addMetrics(request.ResourceMetrics)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// read reads a request into a message. It reports false if it refuses the request.
func (c *Collector) read(w http.ResponseWriter, r *http.Request, into proto.Message) bool {
	c.mu.Lock()
	c.requests++
	refuse := c.refused > 0
	if refuse {
		c.refused--
	}
	c.mu.Unlock()
	if refuse {
		http.Error(w, "refused by the test", http.StatusBadRequest)
		return false
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return false
		}
		body = unpacked
	}
	content, err := io.ReadAll(body)
	if err == nil {
		err = proto.Unmarshal(content, into)
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "no OTLP in protobuf", http.StatusUnsupportedMediaType)
		return false
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	return true
}

// Refuse makes the collector refuse the next requests.
func (c *Collector) Refuse(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = requests
}

// Requests returns how many requests have arrived.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

func (c *Collector) addSpans(all []*traces.ResourceSpans) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range all {
		described := attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, Span{
					TraceID: hex.EncodeToString(s.TraceId), SpanID: hex.EncodeToString(s.SpanId), ParentID: hex.EncodeToString(s.ParentSpanId),
					Name: s.Name, Kind: strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"), Failed: s.GetStatus().GetCode() == traces.Status_STATUS_CODE_ERROR,
					Nanoseconds: s.EndTimeUnixNano - s.StartTimeUnixNano, Attributes: attributes(s.Attributes), Resource: described, Text: prototext.Format(s),
				})
			}
		}
	}
}

func (c *Collector) addMetrics(all []*metrics.ResourceMetrics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range all {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				c.metrics[m.Name] = m
			}
		}
	}
}

func attributes(all []*common.KeyValue) map[string]string {
	out := make(map[string]string, len(all))
	for _, a := range all {
		switch value := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = value.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = strconv.FormatInt(value.IntValue, 10)
		default:
			out[a.Key] = a.GetValue().String()
		}
	}
	return out
}

// Spans returns the spans of a trace that have arrived, or all spans if trace is empty.
func (c *Collector) Spans(trace string) (found []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if trace == "" || s.TraceID == trace {
			found = append(found, s)
		}
	}
	return found
}

// Metric returns the newest state of a metric, or nil if none has arrived.
func (c *Collector) Metric(name string) *metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}
