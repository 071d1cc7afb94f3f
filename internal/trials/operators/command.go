package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// act is one command and how it ended.
type act struct {
	id    int
	round int
	actor string
	kind  string
	args  []string
	lab.CommandResult

	// killed says that the campaign killed the command.
	killed bool

	// reported is how many things the command says it decided; -1 if it does not say. Each of them has an entry of that
	// action in the audit.
	reported int
	action   string

	// decided are the objects of its entries in the audit, by action.
	decided map[string][]string
}

func (a *act) span() span { return span{a.Started, a.Ended} }

// reason returns the reason passed to the command. It identifies the command's entries in the audit.
func (a *act) reason() string { return fmt.Sprintf("act-%06d", a.id) }

// String describes the act in one line.
func (a *act) String() string {
	how := fmt.Sprintf("exit %d", a.ExitCode)
	if a.killed {
		how = "killed"
	}
	return fmt.Sprintf("[round %d %s %s-%s %s: oncegate %s]", a.round, a.actor, a.Started.Format("15:04:05.000"), a.Ended.Format("05.000"), how, strings.Join(a.args, " "))
}

// operator is one operator in one round.
type operator struct {
	*campaign
	name   string
	random *rand.Rand
	round  int
}

// commandOptions says how to run a command.
type commandOptions struct {
	kind          string // the name by which it is counted
	decides       bool   // it takes --reason
	confirms      bool   // it takes --yes, because no one can answer a question
	action        string // of its entries in the audit, whose number it reports
	neverKilled   bool   // never killed by chance
	alwaysKilled  bool   // always killed, unless it ends first
	expectedUsage string // an error with which it may exit 2
}

// runCommand runs a command as an operator would, and reads the JSON that it writes when it succeeds. One command in
// twelve is killed.
func (o *operator) runCommand(ctx context.Context, h commandOptions, into any, args ...string) (*act, error) {
	a := o.newAct(o.round, o.name, h)
	args = append(args, "--output", "json")
	if h.decides {
		args = append(args, "--reason", a.reason())
	}
	if h.confirms {
		args = append(args, "--yes")
	}
	limit, strike := waitLimit, h.alwaysKilled || !h.neverKilled && o.random.IntN(12) == 0
	if strike {
		limit = time.Duration(5+o.random.IntN(80)) * time.Millisecond
	}
	server := o.servers[o.random.IntN(2)]
	a.args = args
	var err error
	a.CommandResult, err = lab.RunCommand(ctx, server.environ("ONCEGATE_ACTOR="+o.name), limit, o.Binary, args...)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return a, err
	}
	a.killed = a.ExitCode == -1 && strike
	if a.ExitCode == 0 && into != nil {
		if err := json.Unmarshal([]byte(a.Stdout), into); err != nil {
			o.violate(rig.NewViolation(exitedWrongly, "%s wrote what is no JSON of its kind: %v: %.200s", a, err, a.Stdout))
		}
	}
	if detail := wrongExit(a, h.expectedUsage); detail != "" {
		o.violate(violation{Kind: exitedWrongly, Detail: detail})
	}
	o.countAct(a)
	return a, nil
}

// The parts of an error that vary: ids, numbers, names and times.
var (
	varyingParts  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|evt_[0-9a-f~]+|order-\d+|\d+(\.\d+)?`)
	internalWords = regexp.MustCompile(`SQLSTATE|panic:|goroutine \d|nil pointer|runtime error`)
)

// wrongExit describes what is wrong with a command's exit, or returns "". The exit status must be documented, and one
// line with a code must explain a failure so that a person can act on it.
func wrongExit(a *act, usage string) string {
	text, worded := errorOf(a)
	switch {
	case a.killed, a.ExitCode == 0:
		return ""
	case a.ExitCode == -1 && a.Ended.Sub(a.Started) >= waitLimit:
		return fmt.Sprintf("%s did not end within %s", a, waitLimit)
	case a.ExitCode != 1 && a.ExitCode != 2 && a.ExitCode != 75:
		return fmt.Sprintf("%s ended with a status that is not documented: %s", a, a.Stderr)
	case a.ExitCode == 2 && (usage == "" || !strings.Contains(text, usage)):
		return fmt.Sprintf("%s was called right and says that it was not: %s", a, text)
	case internalWords.MatchString(a.Stderr):
		return fmt.Sprintf("%s failed with what no person can use: %s", a, a.Stderr)
	case !worded:
		return fmt.Sprintf("%s failed without a word, or without a code: %q", a, a.Stderr)
	}
	return ""
}

// codedError is how a command without --output json ends the line of an error.
var codedError = regexp.MustCompile(`^oncegate: (.*) \[[a-z_]+\]$`)

// errorOf returns the error that a command has written last. worded says that it has a code, as text or in JSON.
func errorOf(a *act) (text string, worded bool) {
	lines := strings.Split(strings.TrimSpace(a.Stderr), "\n")
	last := lines[len(lines)-1]
	var object struct{ Error, Code string }
	if json.Unmarshal([]byte(last), &object) == nil {
		return object.Error, object.Error != "" && object.Code != ""
	}
	if m := codedError.FindStringSubmatch(last); m != nil {
		return m[1], true
	}
	return last, false
}

// refusalReason is why a command refused, without the parts that vary.
func refusalReason(a *act) string {
	text, _ := errorOf(a)
	return a.kind + ": " + varyingParts.ReplaceAllString(text, "#")
}
