package docs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/docs"
)

// requirements is the number of requirements.
const requirements = 166

// unmet lists the requirements that are not met, by what they wait for.
var unmet = map[string][]int{
	"brokers":       {126},
	"traces":        {141},
	"the dashboard": {156},
}

// waitingFor returns what a requirement waits for, or "".
func waitingFor(n int) string {
	for what, numbers := range unmet {
		if slices.Contains(numbers, n) {
			return what
		}
	}
	return ""
}

// Every requirement has a row. Every row that is met names an existing test or command. Every row
// that is met in another way explains why and where a reader finds the reason.
func TestEveryRequirementIsShown(t *testing.T) {
	t.Parallel()
	tests := testFunctions(t)
	for _, fault := range faultsOfRequirements(pages(t)["internal/requirements.md"], func(name string) bool { return proofExists(t, tests, name) }) {
		t.Error(fault)
	}
}

var (
	requirementRow = regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \| ([^|]+) \|([^|]*)\|$`)
	proof          = regexp.MustCompile("`([^`]+)`")
	otherwise      = regexp.MustCompile(`^otherwise: .{40,} \(\[[^]]+\]\([^)]+#[^)]+\)\)$`)
)

// faultsOfRequirements returns all mistakes in the table of a page.
func faultsOfRequirements(page string, exists func(name string) bool) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	next := 1
	texts := map[string]string{}
	for _, row := range requirementRow.FindAllStringSubmatch(page, -1) {
		number, text, state, shown := row[1], strings.TrimSpace(row[2]), strings.TrimSpace(row[3]), proof.FindAllStringSubmatch(row[4], -1)
		n, err := strconv.Atoi(number)
		if err != nil || n != next {
			fault("requirement %s stands where %d should", number, next)
		}
		next = n + 1
		if before := texts[text]; before != "" {
			fault("requirement %s says what %s says", number, before)
		}
		texts[text] = number
		what, waits := strings.CutPrefix(state, "waits for ")
		switch {
		case waits != (waitingFor(n) != "") || waits && what != waitingFor(n):
			fault("requirement %s: %q, and waits for %q", number, state, waitingFor(n))
		case !waits && state != "met" && !otherwise.MatchString(state):
			fault("requirement %s: %q is neither met nor says why it is otherwise, and where", number, state)
		case waits && len(shown) > 0:
			fault("requirement %s waits, and names what shows that it is met", number)
		case !waits && len(shown) == 0:
			fault("requirement %s is without a test and without a command", number)
		}
		for _, name := range shown {
			if !exists(name[1]) {
				fault("requirement %s names %s, which does not exist", number, name[1])
			}
		}
	}
	if next != requirements+1 {
		fault("the table ends before requirement %d", next)
	}
	return faults
}

// proofExists reports whether a test, a script of the command line's test, a script or a command
// has that name.
func proofExists(t *testing.T, tests map[string]bool, name string) bool {
	t.Helper()
	exists := func(elements ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{docs.Root}, elements...)...))
		return err == nil
	}
	if script, ok := strings.CutPrefix(name, "TestScripts/"); ok {
		return tests["TestScripts"] && exists("cmd", "internal", "cli", "testdata", "script", script+".txtar")
	}
	if strings.HasPrefix(name, "scripts/") {
		return exists(strings.Fields(name)[0])
	}
	if command, ok := strings.CutPrefix(name, "oncegate "); ok {
		root := cli.Command()
		found, _, err := root.Find(strings.Fields(command))
		return err == nil && found != root && !found.HasSubCommands()
	}
	return tests[name]
}

// The test finds a row that is missing or duplicate, has no proof, or names a proof that does not
// exist.
func TestWrongRequirementsAreFound(t *testing.T) {
	t.Parallel()
	good := map[int]string{}
	for n := 1; n <= requirements; n++ {
		good[n] = fmt.Sprintf("| %d | It does thing %d. | met | `TestThing`, `scripts/crash` |", n, n)
		if what := waitingFor(n); what != "" {
			good[n] = fmt.Sprintf("| %d | It does thing %d. | waits for %s |  |", n, n, what)
		}
	}
	good[7] = "| 7 | It does thing 7. | otherwise: because of a reason that takes a whole sentence. ([Page](page.md#heading)) | `TestScripts/replay`, `oncegate replay plan` |"
	tests := map[string]bool{"TestThing": true, "TestScripts": true}
	check := func(change func(rows map[int]string)) []string {
		rows := maps.Clone(good)
		change(rows)
		page := "# Page\n\n| # | requirement | state | shown by |\n| --- | --- | --- | --- |\n"
		for _, n := range slices.Sorted(maps.Keys(rows)) {
			page += rows[n] + "\n"
		}
		return faultsOfRequirements(page, func(name string) bool { return proofExists(t, tests, name) })
	}
	if faults := check(func(map[int]string) {}); len(faults) > 0 {
		t.Errorf("a right table has faults: %q", faults)
	}
	for name, change := range map[string]func(rows map[int]string){
		"a row is missing":        func(rows map[int]string) { delete(rows, 100) },
		"the last row is missing": func(rows map[int]string) { delete(rows, requirements) },
		"a row is said twice":     func(rows map[int]string) { rows[2] = strings.Replace(rows[1], "| 1 |", "| 2 |", 1) },
		"a test does not exist":   func(rows map[int]string) { rows[2] = strings.Replace(rows[2], "TestThing", "TestNothing", 1) },
		"a script does not exist": func(rows map[int]string) { rows[2] = strings.Replace(rows[2], "scripts/crash", "scripts/nothing", 1) },
		"a command does not exist": func(rows map[int]string) {
			rows[7] = strings.Replace(rows[7], "oncegate replay plan", "oncegate nothing", 1)
		},
		"a script test does not exist": func(rows map[int]string) {
			rows[7] = strings.Replace(rows[7], "TestScripts/replay", "TestScripts/nothing", 1)
		},
		"a row is without proof":       func(rows map[int]string) { rows[2] = "| 2 | It does thing 2. | met |  |" },
		"a row waits and need not":     func(rows map[int]string) { rows[2] = "| 2 | It does thing 2. | waits for brokers |  |" },
		"a row waits for another":      func(rows map[int]string) { rows[126] = "| 126 | It does thing 126. | waits for traces |  |" },
		"a row is met and should wait": func(rows map[int]string) { rows[126] = "| 126 | It does thing 126. | met | `TestThing` |" },
		"a reason is missing": func(rows map[int]string) {
			rows[7] = "| 7 | It does thing 7. | otherwise: no. ([Page](page.md#heading)) | `TestThing` |"
		},
		"a state is unknown": func(rows map[int]string) { rows[2] = "| 2 | It does thing 2. | partly | `TestThing` |" },
	} {
		if faults := check(change); len(faults) == 0 {
			t.Errorf("%s, and nothing is found", name)
		}
	}
}
