package deploy_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// unit is a systemd unit: the values of each directive by "Section.Directive".
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	u, section := unit{}, ""
	for line := range strings.Lines(read(t, path)) {
		switch line = strings.TrimSpace(line); {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		default:
			name, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Fatalf("%s: %q is no directive of a section", path, line)
			}
			u[section+"."+name] = append(u[section+"."+name], value)
		}
	}
	return u
}

// hardened are the directives that the guide promises.
var hardened = map[string][]string{
	"NoNewPrivileges": {"yes"}, "CapabilityBoundingSet": {""}, "AmbientCapabilities": {""}, "ProtectSystem": {"strict"}, "ProtectHome": {"yes"},
	"PrivateTmp": {"yes"}, "PrivateDevices": {"yes"}, "PrivateUsers": {"yes"}, "ProtectClock": {"yes"}, "ProtectControlGroups": {"yes"},
	"ProtectHostname": {"yes"}, "ProtectKernelLogs": {"yes"}, "ProtectKernelModules": {"yes"}, "ProtectKernelTunables": {"yes"},
	"ProtectProc": {"invisible"}, "RestrictAddressFamilies": {"AF_INET AF_INET6 AF_UNIX"}, "RestrictNamespaces": {"yes"}, "RestrictRealtime": {"yes"},
	"RestrictSUIDSGID": {"yes"}, "RemoveIPC": {"yes"}, "LockPersonality": {"yes"}, "MemoryDenyWriteExecute": {"yes"}, "KeyringMode": {"private"},
	"SystemCallArchitectures": {"native"}, "SystemCallFilter": {"@system-service", "~@privileged @resources"}, "SystemCallErrorNumber": {"EPERM"},
	"UMask": {"0077"}, "User": {"oncegate"}, "Group": {"oncegate"}, "EnvironmentFile": {"/etc/oncegate/oncegate.env"},
}

func TestUnitsAreHardened(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"systemd/oncegate.service", "systemd/oncegate-migrate.service"} {
		u := readUnit(t, path)
		for name, want := range hardened {
			if got := u["Service."+name]; !slices.Equal(got, want) {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

// The migration runs before the process, and a failure of it is retried with the process. It must be no unit that the process requires: systemd
// does not start a unit again whose dependency has failed. A configuration with a mistake is not started again and again, and a reload with
// one is refused before the process is asked.
func TestUnitsStartInOrder(t *testing.T) {
	t.Parallel()
	serve, migrate := readUnit(t, "systemd/oncegate.service"), readUnit(t, "systemd/oncegate-migrate.service")
	for name, want := range map[string][]string{
		"Unit.Requires": nil, "Unit.StartLimitIntervalSec": {"0"}, "Service.Type": {"exec"}, "Service.ExecStartPre": {"/usr/bin/oncegate migrate up"},
		"Service.ExecStart": {"/usr/bin/oncegate serve"}, "Service.Restart": {"on-failure"}, "Service.RestartPreventExitStatus": {"2"},
		"Service.ExecReload": {"/usr/bin/oncegate config check", "/bin/kill -HUP $MAINPID"},
	} {
		if got := serve[name]; !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := append(migrate["Service.Type"], migrate["Service.ExecStart"]...); !slices.Equal(got, []string{"oneshot", "/usr/bin/oncegate migrate up"}) {
		t.Errorf("the migration is %q", got)
	}
}

// systemd kills what still runs after TimeoutStopSec.
func TestUnitLetsTheProcessDrain(t *testing.T) {
	t.Parallel()
	seconds, err := strconv.Atoi(readUnit(t, "systemd/oncegate.service")["Service.TimeoutStopSec"][0])
	if err != nil {
		t.Fatal(err)
	}
	longest := duration(t, setting(t, "systemd/oncegate.env", `^ONCEGATE_DRAIN_DELAY=(\w+)$`)) + documented(t, "drain")
	if limit := time.Duration(seconds) * time.Second; limit <= longest {
		t.Errorf("systemd kills the process after %s, and it may take %s", limit, longest)
	}
}

func TestEnvironmentNamesKnownVariables(t *testing.T) {
	t.Parallel()
	reference := read(t, "../docs/reference/configuration.md")
	for line := range strings.Lines(read(t, "systemd/oncegate.env")) {
		name, _, set := strings.Cut(line, "=")
		if !set || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.Contains(reference, "| `"+strings.TrimSuffix(name, "_FILE")+"` |") {
			t.Errorf("Oncegate does not know the variable %s", name)
		}
	}
}
