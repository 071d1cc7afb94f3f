package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/migrations"
)

type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Schema   int    `json:"schema"`
}

// readBuild returns the build information that the Go toolchain stored in the binary.
func readBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Schema: migrations.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func (s *shell) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this binary and of the schema it needs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if s.output == "json" {
				return s.json(b)
			}
			revision := b.Revision
			if b.Modified {
				revision += " (modified)"
			}
			fmt.Fprintf(s.out, "oncegate %s\n", b.Version)
			page(s.out, []pair{{"revision", revision}, {"go", b.Go}, {"platform", b.Platform}, {"schema", fmt.Sprint(b.Schema)}})
			return nil
		},
	}
}
