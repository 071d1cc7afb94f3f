// Package doctor examines an installation for what would make its promises false or its operation slow. [Examine] runs
// every examination and returns its findings, each with the setting to change.
//
// It sends no event, changes no row and keeps no lock. In an archive it writes an object and deletes it.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
)

// State is how bad a finding is.
type State string

const (
	// OK means that the examination found nothing wrong.
	OK State = "ok"
	// Warning means that the installation works, but less safely or more slowly than it could.
	Warning State = "warning"
	// Fault means that a promise is broken or a part does not work.
	Fault State = "fault"
	// Unknown means that the examination could not be made.
	Unknown State = "unknown"
)

// Finding is the result of one examination, or one of its results.
type Finding struct {
	// Check is the name of the examination. The set of names is closed; see [Checks].
	Check string `json:"check"`
	// State says whether something is wrong.
	State State `json:"state"`
	// Subject is the target, process, setting or index that the finding is about. It is empty if that is the whole database.
	Subject string `json:"subject,omitempty"`
	// Text says what was found, in one sentence without secrets.
	Text string `json:"text"`
	// Remedy says what to change. It is empty if nothing needs to change.
	Remedy string `json:"remedy,omitempty"`
}

// Config says what to examine. Settings, Pool and Now are required.
type Config struct {
	// Settings is the configuration with which the processes serve.
	Settings *config.Config
	// Pool is a pool on the database of Settings. Examinations run one after another on it.
	Pool *pgxpool.Pool
	// Keys is the keyring of Settings. Nil means that nothing is sealed.
	Keys *seal.Keyring
	// PublicURL is the address at which senders reach the receivers, without a path. Empty means that it is not examined.
	PublicURL string
	// Resolver resolves the names of targets and of PublicURL. It defaults to the standard library's.
	Resolver *net.Resolver
	// Now is the clock of this machine.
	Now func() time.Time
	// Progress is called before each examination with its name, if it is set.
	Progress func(check string, done, all int)
}

// examination is one check. It returns no finding if all is well.
type examination struct {
	name string
	fine string // what to say if nothing was found
	run  func(ctx context.Context, cfg *Config) ([]Finding, error)
}

// examinations lists the checks in the order of their importance: what may lose an event first.
var examinations = []examination{
	{"durability", "a commit survives a crash of the server's machine", durability},
	{"standbys", "no standby keeps commits waiting", standbys},
	{"schema", "the tables are those that this binary needs", schemaFits},
	{"indexes", "every index exists and is valid", indexes},
	{"clock", "the clocks of this machine and of the database agree", clocks},
	{"connections", "the server has room for the connections of one more process", connections},
	{"vacuum", "autovacuum is on and keeps up", vacuum},
	{"rights", "no other role of the server reaches the tables", rights},
	{"queues", "no queue of River is marked as paused", queues},
	{"processes", "processes receive and work, all with one configuration", processes},
	{"keyring", "every process can read what the others seal", keyring},
	{"configuration", "the configuration has no warnings", warnings},
	{"targets", "every target can be reached", targets},
	{"archive", "the archive can be written, read and deleted, or none is configured", archive},
	{"brokers", "every broker has what a source consumes from it", brokers},
	{"buffer", "the buffer keeps deliveries while the database is away", bufferStream},
	{"public", "the public address leads to a receiver", public},
}

// Checks returns the names of all checks, in the order in which they run.
func Checks() []string {
	names := make([]string, len(examinations))
	for i := range examinations {
		names[i] = examinations[i].name
	}
	return names
}

// checkTimeout bounds one examination, so that a server or a target that says nothing cannot hold up the others.
const checkTimeout = 30 * time.Second

// Examine runs the examinations and returns their findings in the order of [Checks], at least one for each. It never returns early: an
// examination that fails becomes a finding with the state [Unknown].
func Examine(ctx context.Context, cfg Config) []Finding {
	var out []Finding
	for i, e := range examinations {
		if e.name == "public" && cfg.PublicURL == "" {
			continue
		}
		if cfg.Progress != nil {
			cfg.Progress(e.name, i, len(examinations))
		}
		found, err := func() ([]Finding, error) {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			return e.run(ctx, &cfg)
		}()
		if err != nil {
			found = append(found, Finding{State: Unknown, Text: "could not be examined: " + oneLine(err)})
		}
		if len(found) == 0 {
			found = []Finding{{State: OK, Text: e.fine}}
		}
		for j := range found {
			found[j].Check = e.name
		}
		out = append(out, found...)
	}
	return out
}

// Worst returns the worst state among the findings: a fault, something unknown, a warning, or ok.
func Worst(findings []Finding) State {
	for _, state := range []State{Fault, Unknown, Warning} {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.State == state }) {
			return state
		}
	}
	return OK
}

// oneLine is the text of an error without line breaks. A timeout is said in words.
func oneLine(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", checkTimeout)
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
