// Package telemetry exports the spans and the metrics of a process over OTLP. Only the standard variables of OpenTelemetry
// configure it, and without them it makes nothing.
//
// The SDK exports in the background, from bounded queues. If the collector does not answer, spans are dropped and nothing
// else in the process changes.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// closeWithin is how long the end of a process may wait for the last export.
const closeWithin = 5 * time.Second

// Config configures a [Telemetry]. All fields are required.
type Config struct {
	// Env returns a variable of the process's environment, which the SDK reads too.
	Env func(name string) string

	Logger *slog.Logger

	// Version and Instance are the attributes service.version and service.instance.id of everything that is exported.
	Version, Instance string
}

// Telemetry is what a process exports. Make it with [Open].
type Telemetry struct {
	log      *slog.Logger
	resource *resource.Resource

	spans    *sdktrace.TracerProvider // nil if no traces are exported
	exporter sdkmetric.Exporter       // nil if no metrics are exported

	mu     sync.Mutex
	meters *sdkmetric.MeterProvider // nil before Measure
}

// Open makes what the environment asks for. Its errors are mistakes in the environment. They name the variable. A
// collector that does not answer is no error.
func Open(ctx context.Context, cfg Config) (*Telemetry, error) {
	t := &Telemetry{log: cfg.Logger}
	env := environment(cfg.Env)
	wanted := map[signal]bool{}
	for _, s := range []signal{traces, metrics} {
		wants, err := env.wants(s)
		if err == nil && wants {
			err = env.check(s)
		}
		if err != nil {
			return nil, err
		}
		wanted[s] = wants
	}
	if !wanted[traces] && !wanted[metrics] {
		return t, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.log.Warn("OpenTelemetry reports a problem", slog.String("error", short(err))) }))
	otel.SetLogger(logr.FromSlogHandler(t.log.Handler()))
	if err := t.describe(ctx, cfg); err != nil {
		return nil, err
	}
	if wanted[traces] {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, err
		}
		t.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(t.resource), sdktrace.WithBatcher(&spanExporter{exporter, t.health("spans")}))
	}
	if wanted[metrics] {
		exporter, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, err
		}
		t.exporter = &metricExporter{exporter, t.health("metrics")}
	}
	return t, nil
}

// describe makes the resource, whose attributes describe the process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence
// over our attributes.
func (t *Telemetry) describe(ctx context.Context, cfg Config) (err error) {
	t.resource, err = resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("oncegate"), semconv.ServiceVersion(cfg.Version), semconv.ServiceInstanceID(cfg.Instance),
	), resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) {
		return errors.New("OTEL_RESOURCE_ATTRIBUTES does not have the form name=value,name=value with values in URL encoding")
	}
	return err
}

// Traces returns the provider of the spans, or nil if no traces are exported.
func (t *Telemetry) Traces() trace.TracerProvider {
	if t.spans == nil {
		return nil
	}
	return t.spans
}

// Measure begins to export the metrics of a gatherer every minute, or as OTEL_METRIC_EXPORT_INTERVAL says, if metrics are
// exported at all. Call it once.
func (t *Telemetry) Measure(gatherer prometheus.Gatherer) {
	if t.exporter == nil {
		return
	}
	reader := sdkmetric.NewPeriodicReader(t.exporter, sdkmetric.WithProducer(prombridge.NewMetricProducer(prombridge.WithGatherer(gatherer))))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.resource), sdkmetric.WithReader(reader))
}

// Close exports what has not been exported, for at most 5 s.
func (t *Telemetry) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	t.mu.Lock()
	meters := t.meters
	t.mu.Unlock()
	var closing sync.WaitGroup
	if t.spans != nil {
		closing.Go(func() { t.tellLost(t.spans.Shutdown(ctx)) })
	}
	if meters != nil {
		closing.Go(func() { t.tellLost(meters.Shutdown(ctx)) })
	}
	closing.Wait()
}

// tellLost logs that the last export failed.
func (t *Telemetry) tellLost(err error) {
	if err != nil {
		t.log.Warn("the last spans or metrics were not exported", slog.String("error", short(err)))
	}
}
