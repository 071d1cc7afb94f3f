package app

import (
	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of sources that consume from brokers.
var (
	brokerLag      = prometheus.NewDesc("oncegate_broker_lag_messages", "Messages that a broker has for a source and that are not acknowledged, when it was last asked. Every process of the group shows the same.", []string{"source"}, nil)
	brokerMessages = prometheus.NewDesc("oncegate_broker_messages_total", "Messages of brokers, by what happened: taken, acknowledged after they were recorded or refused, or returned to the broker.", []string{"source", "outcome"}, nil)
	brokerErrors   = prometheus.NewDesc("oncegate_broker_errors_total", "How often messages could not be taken from a broker, recorded or acknowledged.", []string{"source"}, nil)
	brokerFailing  = prometheus.NewDesc("oncegate_broker_failing_seconds", "For how long no messages of a source could be consumed; 0 if they can.", []string{"source"}, nil)
)

// consumersCollector shows the consumers of a process.
type consumersCollector struct{ *App }

// Describe implements [prometheus.Collector].
func (c consumersCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{brokerLag, brokerMessages, brokerErrors, brokerFailing} {
		out <- desc
	}
}

// consumed are the numbers of the sources with one label.
type consumed struct {
	lag, taken, acknowledged, returned, errors, failing float64
	lagKnown                                            bool
}

// Collect implements [prometheus.Collector].
func (c consumersCollector) Collect(out chan<- prometheus.Metric) {
	sums := map[string]*consumed{}
	now := c.clock.Now()
	for _, one := range c.consumers {
		label := c.metered.source(one.source.Name)
		if sums[label] == nil {
			sums[label] = &consumed{}
		}
		sum, state := sums[label], one.State()
		if state.Lag >= 0 {
			sum.lag, sum.lagKnown = sum.lag+float64(state.Lag), true
		}
		sum.taken += float64(state.Taken)
		sum.acknowledged += float64(state.Acknowledged)
		sum.returned += float64(state.Returned)
		sum.errors += float64(state.Errors)
		if !state.Failing.IsZero() {
			sum.failing = max(sum.failing, now.Sub(state.Failing).Seconds())
		}
	}
	for label, sum := range sums {
		if sum.lagKnown {
			out <- prometheus.MustNewConstMetric(brokerLag, prometheus.GaugeValue, sum.lag, label)
		}
		out <- prometheus.MustNewConstMetric(brokerMessages, prometheus.CounterValue, sum.taken, label, "taken")
		out <- prometheus.MustNewConstMetric(brokerMessages, prometheus.CounterValue, sum.acknowledged, label, "acknowledged")
		out <- prometheus.MustNewConstMetric(brokerMessages, prometheus.CounterValue, sum.returned, label, "returned")
		out <- prometheus.MustNewConstMetric(brokerErrors, prometheus.CounterValue, sum.errors, label)
		out <- prometheus.MustNewConstMetric(brokerFailing, prometheus.GaugeValue, sum.failing, label)
	}
}
