package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/oncegate/oncegate/internal/pgtext"
)

// health logs when exports begin to fail and when they succeed again, one line each.
type health struct {
	log  *slog.Logger
	what string

	mu      sync.Mutex
	failing bool
}

func (t *Telemetry) health(what string) *health { return &health{log: t.log, what: what} }

// note takes the result of an export.
func (h *health) note(ctx context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil && !h.failing:
		h.log.WarnContext(ctx, "exports over OTLP fail and are dropped until the collector takes them; deliveries and effects do not depend on it",
			slog.String("of", h.what), slog.String("error", short(err)))
	case err == nil && h.failing:
		h.log.InfoContext(ctx, "exports over OTLP succeed again", slog.String("of", h.what))
	}
	h.failing = err != nil
}

// short returns the text of an error in one line that is not too long. A collector's answer may be part of it.
func short(err error) string { return pgtext.Clean(fmt.Sprint(err), 300) }

// spanExporter notes how exports of spans end.
type spanExporter struct {
	sdktrace.SpanExporter
	health *health
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.health.note(ctx, e.SpanExporter.ExportSpans(ctx, spans))
	return nil // it is logged
}

// metricExporter notes how exports of metrics end.
type metricExporter struct {
	sdkmetric.Exporter
	health *health
}

// Export implements [sdkmetric.Exporter].
func (e *metricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	e.health.note(ctx, e.Exporter.Export(ctx, data))
	return nil // it is logged
}
