package cli

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

//go:embed dev.yml
var devConfig string

// devExample is an example source below the target in dev.yml: its name, which is also its
// provider, and the variable with its secret.
const devExample = `  %[1]s:
    provider: %[1]s
    secrets: [env:%[2]s]
    routes: [{ name: dev, types: ["*"], target: dev }]
`

// devContent returns the built-in configuration. It leaves out the example source called own,
// because the environment defines a source of that name.
func devContent(own string) []byte {
	content := []byte(devConfig)
	for _, name := range devExamples {
		if name != own {
			content = fmt.Appendf(content, devExample, name, devVariable(name))
		}
	}
	return content
}

// ownSource returns the name of the source that the environment defines, or "".
func (s *shell) ownSource() string {
	return cmp.Or(s.env("ONCEGATE_SOURCE_NAME"), s.env("ONCEGATE_SOURCE_PROVIDER"))
}

// loadDev reads the built-in configuration with the source that the environment defines, or the
// file that --config names.
func (s *shell) loadDev(environ ...string) (*config.Config, error) {
	cfg, err := s.devOptions(s.configFile, environ...).load()
	if err != nil {
		return nil, err
	}
	if cfg.Database.URL == "" {
		return nil, errorf(errorcode.DatabaseMissing, "oncegate dev needs a PostgreSQL: set DATABASE_URL, or use ./scripts/run, which brings one")
	}
	return cfg, nil
}

// devOptions is how `oncegate dev` reads its configuration.
type devOptions struct {
	config.Options
	own string
}

func (s *shell) devOptions(file string, environ ...string) *devOptions {
	o := &devOptions{Options: config.Options{
		File: file, Environ: slices.Concat(devEnviron(), s.environ, environ), Catalog: new(catalog.Lazy), Dev: true,
	}}
	if file == "" {
		o.own = s.ownSource()
		o.File, o.Content = "the development configuration", devContent(o.own)
	}
	return o
}

// load reads the configuration. A source of the environment without a route gets the route of the
// examples, so that its events reach the target in the process, too.
func (o *devOptions) load() (*config.Config, error) {
	cfg, err := config.Load(o.Options)
	if err != nil {
		return cfg, err
	}
	if cfg.Together(); o.Content == nil {
		return cfg, nil
	}
	example := slices.IndexFunc(cfg.Sources, func(s *config.Source) bool { return s.Name != o.own && len(s.Routes) > 0 })
	for _, source := range cfg.Sources {
		if len(source.Routes) == 0 && example >= 0 {
			route := *cfg.Sources[example].Routes[0]
			source.Routes = []*config.Route{&route}
		}
	}
	return cfg, nil
}

// servedConfig returns the configuration of the servers that use the commands' database: the
// configuration file or, without one, the configuration of the `oncegate dev` in this directory.
func (s *shell) servedConfig() (*config.Config, error) {
	cfg, err := s.loadWhole(context.Background())
	if err == nil || s.configFile != "" || s.env("DATABASE_URL") != "" || s.env("DATABASE_URL_FILE") != "" || s.env("ONCEGATE_CONFIG") != "" {
		return cfg, err
	}
	if state, ok := s.readDevState(); ok {
		return s.runningConfig(state)
	}
	return nil, err
}

// runningConfig returns the configuration of the running `oncegate dev`, as far as the environment
// of this command is the same.
func (s *shell) runningConfig(state devState) (*config.Config, error) {
	return s.devOptions(state.Config, "DATABASE_URL="+state.DatabaseURL, "ONCEGATE_SCHEMA="+state.Schema).load()
}

// devConfigFile returns the absolute path of the file that --config names, or "". Another command
// may have another working directory.
func (s *shell) devConfigFile() (string, error) {
	if s.configFile == "" {
		return "", nil
	}
	path, err := filepath.Abs(s.configFile)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", s.configFile, err)
	}
	return path, nil
}

// sameFile reports whether two paths name one file.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// devVariable returns the variable with the secret of an example source.
func devVariable(source string) string {
	return "ONCEGATE_DEV_" + strings.ToUpper(strings.ReplaceAll(source, "-", "_")) + "_SECRET"
}
