package app

import "github.com/prometheus/client_golang/prometheus"

// The metrics of the buffer.
var (
	bufferDeliveries = prometheus.NewDesc("oncegate_buffer_deliveries_total", "Deliveries and the buffer, by what happened: buffered, failed because the stream did not store them, or recorded after they were buffered.", []string{"outcome"}, nil)
	bufferWaiting    = prometheus.NewDesc("oncegate_buffer_waiting_deliveries", "Deliveries in the buffer that are not recorded yet, when it was last asked. Every process shows the same.", nil, nil)
	bufferActive     = prometheus.NewDesc("oncegate_buffer_active", "1 while deliveries go to the buffer because the gate cannot record them.", nil, nil)
	bufferConnected  = prometheus.NewDesc("oncegate_buffer_connected", "1 while the process is connected to a server of the buffer.", nil, nil)
	bufferFailing    = prometheus.NewDesc("oncegate_buffer_failing_seconds", "For how long no buffered deliveries could be consumed; 0 if they can.", nil, nil)
)

// bufferCollector shows the buffer of a process.
type bufferCollector struct{ *App }

// Describe implements [prometheus.Collector].
func (c bufferCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{bufferDeliveries, bufferWaiting, bufferActive, bufferConnected, bufferFailing} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c bufferCollector) Collect(out chan<- prometheus.Metric) {
	state := c.buffered.State()
	count := func(outcome string, n uint64) {
		out <- prometheus.MustNewConstMetric(bufferDeliveries, prometheus.CounterValue, float64(n), outcome)
	}
	count("buffered", state.Buffered)
	count("failed", state.Failed)
	count("recorded", state.Admitted)
	failing := 0.0
	for _, one := range c.buffered.consumers {
		if since := one.State().Failing; !since.IsZero() {
			failing = max(failing, c.clock.Now().Sub(since).Seconds())
		}
	}
	if waiting, known := c.buffered.waiting(); known {
		out <- prometheus.MustNewConstMetric(bufferWaiting, prometheus.GaugeValue, float64(waiting))
	}
	flag := func(desc *prometheus.Desc, on bool) {
		value := 0.0
		if on {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	flag(bufferActive, state.Buffering || c.waiting != nil)
	flag(bufferConnected, c.buffered.stream.Connected())
	out <- prometheus.MustNewConstMetric(bufferFailing, prometheus.GaugeValue, failing)
}
