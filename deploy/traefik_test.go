package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// traefikStatic and traefikDynamic have the keys of Traefik's reference
// (https://doc.traefik.io/traefik/reference/static-configuration/file/ and dynamic-configuration/file/) that the files use. A key that
// is not there is a mistake, as in a file with another indentation.
type traefikStatic struct {
	EntryPoints map[string]struct {
		Address   string
		Transport struct {
			RespondingTimeouts struct {
				ReadTimeout  string `yaml:"readTimeout"`
				WriteTimeout string `yaml:"writeTimeout"`
				IdleTimeout  string `yaml:"idleTimeout"`
			} `yaml:"respondingTimeouts"`
			LifeCycle struct {
				GraceTimeOut string `yaml:"graceTimeOut"`
			} `yaml:"lifeCycle"`
		}
	} `yaml:"entryPoints"`
	Providers struct {
		File struct {
			Directory string
			Watch     bool
		}
	}
}

type traefikDynamic struct {
	HTTP struct {
		Routers map[string]struct {
			EntryPoints []string `yaml:"entryPoints"`
			Rule        string
			Middlewares []string
			Service     string
			TLS         struct{ Options string }
		}
		Middlewares map[string]struct {
			Headers struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			}
			Retry struct {
				Attempts        int
				InitialInterval string `yaml:"initialInterval"`
			}
		}
		Services map[string]struct {
			LoadBalancer struct {
				PassHostHeader   bool   `yaml:"passHostHeader"`
				ServersTransport string `yaml:"serversTransport"`
				Servers          []struct{ URL string }
				HealthCheck      struct {
					Path, Interval, Timeout string
					Port                    int
				} `yaml:"healthCheck"`
			} `yaml:"loadBalancer"`
		}
		ServersTransports map[string]struct {
			MaxIdleConnsPerHost int `yaml:"maxIdleConnsPerHost"`
			ForwardingTimeouts  struct {
				DialTimeout           string `yaml:"dialTimeout"`
				ResponseHeaderTimeout string `yaml:"responseHeaderTimeout"`
				IdleConnTimeout       string `yaml:"idleConnTimeout"`
			} `yaml:"forwardingTimeouts"`
		} `yaml:"serversTransports"`
	}
	TLS struct {
		Options map[string]struct {
			MinVersion string `yaml:"minVersion"`
		}
		Certificates []struct {
			CertFile string `yaml:"certFile"`
			KeyFile  string `yaml:"keyFile"`
		}
	}
}

// Traefik is in no distribution and too large to build here, so its files are held against its reference, and each name that one part
// refers to against the part that defines it.
func TestTraefikFilesFitTogether(t *testing.T) {
	t.Parallel()
	var static traefikStatic
	var dynamic traefikDynamic
	for path, into := range map[string]any{"traefik/traefik.yml": &static, "traefik/oncegate.yml": &dynamic} {
		if err := yaml.NewDecoder(strings.NewReader(read(t, path)), yaml.Strict()).Decode(into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	router := dynamic.HTTP.Routers["oncegate"]
	for _, name := range router.EntryPoints {
		if static.EntryPoints[name].Address == "" {
			t.Errorf("there is no entry point %s", name)
		}
	}
	for _, name := range router.Middlewares {
		if m := dynamic.HTTP.Middlewares[name]; len(m.Headers.CustomRequestHeaders) == 0 && m.Retry.Attempts < 2 {
			t.Errorf("there is no middleware %s", name)
		}
	}
	service := dynamic.HTTP.Services[router.Service].LoadBalancer
	transport := dynamic.HTTP.ServersTransports[service.ServersTransport]
	if len(service.Servers) != 2 || !service.PassHostHeader || service.HealthCheck.Path != "/readyz" || transport.MaxIdleConnsPerHost == 0 {
		t.Errorf("the service is %+v over %+v", service, transport)
	}
	if options := dynamic.TLS.Options[router.TLS.Options]; options.MinVersion != "VersionTLS12" {
		t.Errorf("TLS begins with %q", options.MinVersion)
	}
	if !strings.HasSuffix(router.Rule, "PathPrefix(`/in/`)") || slices.Contains(router.EntryPoints, "traefik") {
		t.Errorf("the router takes %s", router.Rule)
	}
}
