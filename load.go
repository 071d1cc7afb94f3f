package oncegate

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

const defaultSchema = "oncegate"

// Load reads the binary's configuration file and environment variables: DATABASE_URL,
// ONCEGATE_SCHEMA and so on. A route of the file without a target uses a handler of this program.
// An empty name means oncegate.yml, if it exists.
//
// In the returned Config you may change only DatabaseURL, Schema, Migrate, Role, Logger, Metrics,
// Traces and Now; the file determines the rest. The file's log section applies only to the binary.
// The error lists every problem, one per line, with file and line.
func Load(file string) (Config, error) {
	settings, err := config.Load(config.Options{File: file, Environ: os.Environ(), Catalog: new(catalog.Lazy), Handlers: true})
	if err != nil {
		return Config{}, err
	}
	if len(settings.Databases) > 0 {
		return Config{}, errors.New("databases: an Inbox has one database; open one Inbox for each database, each with its own file")
	}
	return Config{DatabaseURL: settings.Database.URL, Schema: settings.Database.Schema, loaded: settings}, nil
}

// lookupEnvironment returns the value of a variable that a Secret names.
func lookupEnvironment(name string) (string, bool) { return os.LookupEnv(name) }

// resolve checks the Config and returns the configuration for package app.
func (c *Config) resolve() (app.Config, error) {
	var out app.Config
	if c.DatabaseURL == "" {
		return out, errors.New("Config.DatabaseURL is empty: give postgres://user:password@host:5432/database")
	}
	if c.loaded != nil {
		if c.Sources != nil || c.Targets != nil || c.Providers != nil || !c.Keyring.none() || c.Workers != 0 || c.Lease != 0 ||
			c.Drain != 0 || c.TrustedProxies != nil || c.GateConnections != 0 || c.WorkConnections != 0 || c.QueueConnections != 0 {
			return out, errors.New("a Config that was loaded takes DatabaseURL, Schema, Migrate, Role, Logger, Metrics, Traces and Now: write the rest into the file")
		}
		settings := *c.loaded
		settings.Database.URL, settings.Database.Schema = c.DatabaseURL, c.Schema
		out.Settings = &settings
	} else {
		settings, err := c.read()
		if err != nil {
			return out, err
		}
		out.Settings = settings
	}
	if out.Settings.Database.Schema == "" {
		out.Settings.Database.Schema = defaultSchema
	}
	if !slices.Contains([]Role{Both, Receive, Work}, c.Role) {
		return out, fmt.Errorf("Config.Role %q is unknown; known are Both, Receive and Work", string(c.Role))
	}
	out.Receive, out.Work = c.Role != Work, c.Role != Receive
	out.Logger, out.Metrics, out.Traces, out.Migrate, out.Now, out.Version = c.Logger, c.Metrics, c.Traces, c.Migrate, c.Now, version()
	if out.Logger == nil {
		out.Logger = slog.Default()
	}
	return out, nil
}

// read checks a Config that was written in Go, using the reader of the configuration file.
func (c *Config) read() (*config.Config, error) {
	if len(c.Sources) == 0 {
		return nil, errors.New("Config.Sources is empty: name what sends, or Load a file")
	}
	d := document{environment: map[string]string{"DATABASE_URL": c.DatabaseURL}}
	content, err := d.write(c)
	if err != nil {
		return nil, err
	}
	environ := make([]string, 0, len(d.environment))
	for name, value := range d.environment {
		environ = append(environ, name+"="+value)
	}
	return config.Load(config.Options{Content: content, Environ: environ, Catalog: new(catalog.Lazy), Handlers: true, Now: c.Now})
}
