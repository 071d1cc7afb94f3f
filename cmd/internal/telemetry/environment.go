package telemetry

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The variables that Oncegate reads itself. The OpenTelemetry SDK reads these and the others:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
const (
	envDisabled   = "OTEL_SDK_DISABLED"
	envSampler    = "OTEL_TRACES_SAMPLER"
	envSamplerArg = "OTEL_TRACES_SAMPLER_ARG"
	envOTLP       = "OTEL_EXPORTER_OTLP_"
)

// protocol is the only protocol of OTLP that the binary has. The one over gRPC would need a client of gRPC.
const protocol = "http/protobuf"

// signal is one of the kinds of data that OpenTelemetry exports.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
)

// environment is the environment of the process.
type environment func(name string) string

// read returns a variable and its value without surrounding blanks.
func (e environment) read(name string) string { return strings.TrimSpace(e(name)) }

// otlp returns a setting of the exporter and the variable that has it: the one of the signal, or else the one of all signals.
func (e environment) otlp(s signal, setting string) (name, value string) {
	for _, name := range []string{envOTLP + string(s) + "_" + setting, envOTLP + setting} {
		if value := e.read(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// wants reports whether a signal is exported: an endpoint is set, or its exporter is otlp, and neither the exporter none nor
// OTEL_SDK_DISABLED says otherwise. Without an endpoint the specification would export to localhost; Oncegate exports
// nothing unless it is asked to.
func (e environment) wants(s signal) (bool, error) {
	if strings.EqualFold(e.read(envDisabled), "true") {
		return false, nil
	}
	name := "OTEL_" + string(s) + "_EXPORTER"
	endpoint, _ := e.otlp(s, "ENDPOINT")
	switch exporter := e.read(name); exporter {
	case "":
		return endpoint != "", nil
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	default:
		return false, fmt.Errorf("%s=%q is not supported: set otlp, or none to export no %s", name, exporter, strings.ToLower(string(s)))
	}
}

// check returns the first mistake in the settings of a signal, or nil.
func (e environment) check(s signal) error {
	if name, given := e.otlp(s, "PROTOCOL"); given != "" && given != protocol {
		return fmt.Errorf("%s=%q is not supported: set %s, which collectors take at port 4318", name, given, protocol)
	}
	if name, endpoint := e.otlp(s, "ENDPOINT"); endpoint != "" {
		// A URL that does not parse is not quoted, because it may have a password.
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%s is no http or https address: set one such as http://localhost:4318", name)
		}
	}
	name, headers := e.otlp(s, "HEADERS")
	for pair := range strings.SplitSeq(headers, ",") {
		if headers == "" {
			break
		}
		key, value, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); !ok || err != nil || strings.TrimSpace(key) == "" {
			return fmt.Errorf("%s does not have the form name=value,name=value with values in URL encoding", name)
		}
	}
	if s == traces {
		return e.checkSampler()
	}
	return nil
}

// samplers are the samplers of the SDK. Those with a ratio take it from OTEL_TRACES_SAMPLER_ARG.
var samplers = []string{
	"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
}

func (e environment) checkSampler() error {
	sampler, arg := strings.ToLower(e.read(envSampler)), e.read(envSamplerArg)
	if sampler == "" {
		return nil
	}
	if !slices.Contains(samplers, sampler) {
		return fmt.Errorf("%s=%q is unknown; known are %s", envSampler, sampler, strings.Join(samplers, ", "))
	}
	if ratio, err := strconv.ParseFloat(arg, 64); strings.HasSuffix(sampler, "traceidratio") && arg != "" && (err != nil || !(ratio >= 0 && ratio <= 1)) {
		return fmt.Errorf("%s=%q is no ratio: set a number from 0 to 1", envSamplerArg, arg)
	}
	return nil
}
