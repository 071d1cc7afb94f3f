package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// addExamples adds an example to every command that does not define one in its own file.
func addExamples(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		addExamples(sub)
	}
	if cmd.Example == "" {
		cmd.Example = indentExamples(exampleOf(strings.TrimPrefix(cmd.CommandPath(), "oncegate ")))
	}
}

func indentExamples(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "  oncegate " + strings.Join(lines, "\n  oncegate ")
}

// exampleOf returns example arguments of a command by the command's path.
func exampleOf(path string) []string {
	switch path {
	case "serve":
		return []string{"serve --config oncegate.yml", "serve --role receive"}
	case "version":
		return []string{"version", "version --json"}
	case "status":
		return []string{"status", "status --json"}
	case "config check":
		return []string{"config check --config oncegate.yml", "config check --against-database", "config check --against-brokers"}
	case "config print":
		return []string{"config print --config oncegate.yml"}
	case "config schema":
		return []string{"config schema"}
	case "migrate up":
		return []string{"migrate up"}
	case "migrate status":
		return []string{"migrate status", "migrate status --json"}
	case "prune":
		return []string{"prune --dry-run", "prune"}
	case "notifications list":
		return []string{"notifications list"}
	case "notifications test":
		return []string{"notifications test --reason 'a new address'"}
	case "keys list":
		return []string{"keys list", "keys list --usage"}
	case "keys rotate":
		return []string{"keys rotate", "keys rotate --prepare"}
	case "keys activate":
		return []string{"keys activate 2"}
	case "keys remove":
		return []string{"keys remove 1"}
	case "history show":
		return []string{"history show", "history show --json"}
	case "history declare":
		return []string{"history declare --as restored --reason 'restored from the backup of Monday'", "history declare --as copy --yes --reason 'clone for tests'"}
	case "keys reseal":
		return []string{"keys reseal"}
	}
	return exampleOfRecords(path)
}

// exampleOfRecords is the part of exampleOf for commands about recorded data.
func exampleOfRecords(path string) []string {
	switch path {
	case "events list":
		return []string{"events list --source stripe --since 2h", "events list --state dead --wide", "events list --all --output jsonl"}
	case "events show":
		return []string{"events show stripe/evt_1", "events show @1", "events show stripe/evt_1 --body"}
	case "dead list":
		return []string{"dead list --group", "dead list --route billing --since 12h", "dead list --columns received,event-id,reason,id"}
	case "dead show":
		return []string{"dead show @1"}
	case "dead replay":
		return []string{"dead replay @1 --reason 'the target is back'", "dead replay --route billing --since 12h --reason 'the target is back'"}
	case "dead discard":
		return []string{"dead discard @1 --reason 'paid by hand'", "dead discard --source stripe --dead-reason mapping_failed --dry-run"}
	case "routes list":
		return []string{"routes list"}
	case "routes discard":
		return []string{"routes discard stripe/billing --dry-run"}
	case "sources list":
		return []string{"sources list"}
	case "sources show":
		return []string{"sources show stripe"}
	case "sources create":
		return []string{"sources create acme --file acme.yml --reason 'a new customer'"}
	case "sources update":
		return []string{"sources update acme --file rotated.yml --reason 'a rotated secret'"}
	case "sources disable", "sources enable":
		return []string{path + " acme --reason 'the contract'"}
	case "sources move":
		return []string{"sources move stripe --to eu --reason 'eu has its own disk'", "sources move stripe --to eu --reason 'eu has its own disk' --wait 5m --output json"}
	case "sources pause", "sources resume":
		return []string{path + " stripe --reason 'the provider migrates our account'"}
	case "routes pause", "routes resume":
		return []string{path + " stripe/billing --reason 'it books twice'"}
	case "targets pause", "targets resume":
		return []string{path + " billing --reason 'maintenance until 18:00'"}
	case "targets list":
		return []string{"targets list"}
	case "targets show":
		return []string{"targets show billing"}
	case "replay list":
		return []string{"replay list --state running"}
	case "replay run":
		return []string{"replay run @1 --digest 1f3a5c7e --reason 'the target is back' --follow"}
	case "replay status":
		return []string{"replay status @1 --follow", "replay status @1 --show 20"}
	case "replay cancel":
		return []string{"replay cancel @1 --reason 'the wrong route'"}
	case "replay items":
		return []string{"replay items @1 --open"}
	case "streams list":
		return []string{"streams list --blocked", "streams list --undecided"}
	case "streams show":
		return []string{"streams show orders/fulfil/17", "streams show @1"}
	case "streams apply":
		return []string{"streams apply @1 --reason 'their order does not matter'"}
	case "streams skip":
		return []string{"streams skip orders/fulfil/17 --reason 'number 2 was cancelled'"}
	case "streams unblock":
		return []string{"streams unblock orders/fulfil/17 --reason 'mended by hand'"}
	case "refusals list":
		return []string{"refusals list --source stripe --since 1h", "refusals list --cause mismatch --whole"}
	case "conflicts list":
		return []string{"conflicts list --source stripe", "conflicts list --event @1"}
	case "conflicts show":
		return []string{"conflicts show @1 --diff"}
	}
	return exampleOfRest(path)
}

func exampleOfRest(path string) []string {
	switch path {
	case "outbox list":
		return []string{"outbox list --refused"}
	case "outbox show":
		return []string{"outbox show 42"}
	case "outbox discard":
		return []string{"outbox discard 42 --reason 'emitted by mistake'"}
	case "sessions list":
		return []string{"sessions list --source agents --run 42"}
	case "suppressions list":
		return []string{"suppressions list --as complaint"}
	case "suppressions check":
		return []string{"suppressions check ann@example.com"}
	case "suppressions remove":
		return []string{"suppressions remove ann@example.com --reason 'she asked for it'"}
	case "providers list":
		return []string{"providers list", "providers list ed25519"}
	case "audit list":
		return []string{"audit list --since 7d", "audit list --actor ann --action effect.resolve.done"}
	case "nodes list":
		return []string{"nodes list"}
	case "tokens list":
		return []string{"tokens list", "tokens list --ended"}
	case "logins list":
		return []string{"logins list"}
	}
	return nil
}
