package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// listEntry is a row of the last list, to which an argument such as @1 refers.
type listEntry struct {
	// IDs maps kinds of objects to the row's ids: the row of an effect has the effect's id and its
	// event's.
	IDs map[string]string `json:"ids"`

	// Name is a readable name of the row, such as stripe/evt_1.
	Name string `json:"name,omitempty"`
}

// lastList is the most recently shown list for one directory and one database or server.
type lastList struct {
	Command string      `json:"command"`
	At      time.Time   `json:"at"`
	Entries []listEntry `json:"entries"`
}

// maxRemembered limits the number of rows in the file.
const maxRemembered = 1000

// remembers reports whether the rows of a list are stored for @1: on a terminal, or with
// --remember.
func (s *shell) remembers() bool { return s.view.remember || s.output == "table" && s.width() > 0 }

// rememberList stores the rows of a list. It ignores errors because the list itself was shown.
func (s *shell) rememberList(cmd *cobra.Command, entries []listEntry) {
	path, ok := s.lastListPath()
	if !ok || !s.remembers() || len(entries) == 0 {
		return
	}
	content, err := json.Marshal(lastList{
		Command: strings.TrimPrefix(cmd.CommandPath(), "oncegate "), At: time.Now().UTC(), Entries: entries[:min(len(entries), maxRemembered)],
	})
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".next-*") // CreateTemp sets the mode 0600
	if err != nil {
		return
	}
	_, err = next.Write(append(content, '\n'))
	if closing := next.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
}

// lastListPath returns the path of the last list's file, below the user's cache directory. There is
// one file for each directory and database or server.
func (s *shell) lastListPath() (string, bool) {
	cache := s.env("XDG_CACHE_HOME")
	if cache == "" {
		home := s.env("HOME")
		if home == "" {
			return "", false
		}
		cache = filepath.Join(home, ".cache")
	}
	here, err := os.Getwd()
	if err != nil || !filepath.IsAbs(cache) {
		return "", false
	}
	of := sha256.Sum256([]byte(here + "\x00" + s.dataSource()))
	return filepath.Join(cache, "oncegate", "lists", hex.EncodeToString(of[:8])+".json"), true
}

// dataSource identifies the database or server that the command uses.
func (s *shell) dataSource() string {
	if s.server != "" {
		return strings.TrimSuffix(s.server, "/")
	}
	db, err := s.database()
	if err != nil {
		return ""
	}
	return db.URL + "\x00" + db.Schema
}

// readLastList returns the most recently shown list. The second result is false if there is none.
func (s *shell) readLastList() (lastList, bool) {
	var list lastList
	path, ok := s.lastListPath()
	if !ok {
		return list, false
	}
	content, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(content, &list) != nil {
		return list, false
	}
	return list, true
}

// rowNumber parses a reference to a row, such as @1.
func rowNumber(text string) (int, bool) {
	digits, ok := strings.CutPrefix(text, "@")
	if !ok || digits == "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// resolveRow returns the id to which @1 refers, for the first kind in kinds that the row has, and
// prints it to stderr.
func (s *shell) resolveRow(text string, kinds []string) (string, error) {
	n, _ := rowNumber(text)
	list, ok := s.readLastList()
	if !ok {
		return "", usagef("%s: no list was shown here yet; `oncegate %ss list` shows one", text, kinds[0])
	}
	if n < 1 || n > len(list.Entries) {
		return "", usagef("%s: the last list, `oncegate %s`, had %s", text, clean(list.Command), plural(len(list.Entries), "row", "rows"))
	}
	entry := list.Entries[n-1]
	for _, kind := range kinds {
		id := entry.IDs[kind]
		if id == "" {
			continue
		}
		fmt.Fprintf(s.err, "oncegate: %s is %s, of `oncegate %s` %s\n", text, clean(strings.TrimSpace(kind+" "+id+" "+entry.Name)), clean(list.Command), relative(list.At, time.Now()))
		return id, nil
	}
	return "", usagef("%s: the last list, `oncegate %s`, has no %s; `oncegate %ss list` shows them", text, clean(list.Command), kinds[0], kinds[0])
}
