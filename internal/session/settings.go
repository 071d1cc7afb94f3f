package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Settings are the settings of a session, by name. A number has no unit, as in pg_settings: it is in the
// setting's own unit, which is milliseconds for every timeout.
type Settings map[string]string

// tolerated are settings that not every server has, or that a connection over a Unix socket
// shows as zero. They are set if possible, and not read back.
var tolerated = map[string]bool{
	"client_connection_check_interval": true,
	"tcp_keepalives_count":             true,
	"tcp_keepalives_idle":              true,
	"tcp_keepalives_interval":          true,
	"tcp_user_timeout":                 true,
}

// SettingError says that a session does not have a required setting.
type SettingError struct {
	// Name is the setting; Is is what the session has, and Must what it has to be. Reason is
	// what the server said, if it refused the setting.
	Name, Is, Must, Reason string
}

// Error returns one line that explains the problem and its likely cause.
func (e *SettingError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("the database refuses the setting %s = %q: %s", e.Name, e.Must, e.Reason)
	}
	return fmt.Sprintf("a session of the database has %s = %q and must have %q, although it was set: "+
		"a pooler or proxy in between does not keep it; use the pooler's session mode, or connect to PostgreSQL directly", e.Name, e.Is, e.Must)
}

// prepareTimeout is how long a new connection may take to set up its session, if the url has no
// connect timeout. A pooler may make the first statement wait for a connection to the
// server.
const prepareTimeout = 5 * time.Second

// Prepare makes every connection that is opened with cfg, or with a copy of it, set up its session.
// It applies the settings of the connection string and then settings, which win. It reads settings
// back, and closes a connection whose session differs with a [SettingError].
//
// It removes the connection string's settings from the startup message, because poolers refuse or
// ignore them there. Only options that are not settings stay, such as the one by which some hosts
// find the database.
//
// No session compiles its statements (jit). They are short. Compiling takes longer than running
// them, above all where the planner overestimates what many partitions hold.
//
// Prepare also closes a session whose server history refuses. Connections of one process share a history.
func Prepare(cfg *pgx.ConnConfig, settings Settings, history *History) {
	settings = maps.Clone(settings)
	settings["jit"] = "off"
	set := maps.Clone(settings)
	for name, value := range takeParameters(cfg.RuntimeParams) {
		if _, ours := set[name]; !ours {
			set[name] = value
		}
	}
	required := slices.Sorted(maps.Keys(settings))
	required = slices.DeleteFunc(required, func(name string) bool { return tolerated[name] })
	after := cfg.AfterConnect
	timeout := cfg.ConnectTimeout
	if timeout <= 0 {
		timeout = prepareTimeout
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if after != nil {
			if err := after(ctx, conn); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := setUp(ctx, conn, set, required, history)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("the session was not set up within %s, as when a pooler has no connection to the server to give: %w", timeout, context.Cause(ctx))
		}
		return err
	}
}

// takeParameters removes from the startup message what can be set by statement, and returns it.
func takeParameters(params map[string]string) Settings {
	out := Settings{}
	rest, found := splitOptions(params["options"])
	maps.Copy(out, found)
	delete(params, "options")
	if rest != "" {
		params["options"] = rest
	}
	for name, value := range params {
		switch name {
		case "application_name", "options":
		default:
			out[name] = value
			delete(params, name)
		}
	}
	return out
}

// splitOptions takes the settings out of the server's command-line options (-c name=value and
// --name=value), in which a backslash keeps a space or itself.
func splitOptions(options string) (rest string, found Settings) {
	found = Settings{}
	var words, kept []string
	var word strings.Builder
	var raw strings.Builder
	flush := func() {
		if raw.Len() > 0 {
			words, kept = append(words, word.String()), append(kept, raw.String())
		}
		word.Reset()
		raw.Reset()
	}
	for i := 0; i < len(options); i++ {
		switch c := options[i]; {
		case c == '\\' && i+1 < len(options):
			raw.WriteString(options[i : i+2])
			i++
			word.WriteByte(options[i])
		case c == ' ' || c == '\t' || c == '\n':
			flush()
		default:
			raw.WriteByte(c)
			word.WriteByte(c)
		}
	}
	flush()
	var left []string
	for i := 0; i < len(words); i++ {
		setting := ""
		took := 1
		switch w := words[i]; {
		case w == "-c" && i+1 < len(words):
			setting, took = words[i+1], 2
		case strings.HasPrefix(w, "-c"):
			setting = w[len("-c"):]
		case strings.HasPrefix(w, "--"):
			setting = w[len("--"):]
		}
		name, value, ok := strings.Cut(setting, "=")
		if !ok || name == "" {
			left = append(left, kept[i])
			continue
		}
		found[strings.ReplaceAll(name, "-", "_")] = value
		i += took - 1
	}
	return strings.Join(left, " "), found
}

// The statement skips a tolerated setting that the server does not know. Any other unknown setting
// is an error.
const setAll = `
SELECT set_config(s.name, s.value, false)
FROM json_to_recordset($1::json) AS s (name text, value text, tolerated boolean)
WHERE NOT s.tolerated OR current_setting(s.name, true) IS NOT NULL`

// readBack reads the current values in the units of the settings, the process that serves the session, and the position of its server.
// pg_settings has none of the settings that are ours alone.
const readBack = `
SELECT pg_backend_pid(), (SELECT json_object_agg(n.name, coalesce(p.setting, current_setting(n.name, true)))
    FROM json_array_elements_text($1::json) AS n (name) LEFT JOIN pg_settings p ON p.name = n.name),` + positionColumns

// markName is the name of the setting with the session's mark.
const markName = "oncegate.session"

// setUp sets everything in one round trip, compares what the session then has, and remembers
// the process that serves it and the position of its server.
func setUp(ctx context.Context, conn *pgconn.PgConn, set Settings, required []string, history *History) error {
	mark := rand.Text()
	type setting struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		Tolerated bool   `json:"tolerated"`
	}
	list := make([]setting, 0, len(set)+1)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, setting{name, set[name], tolerated[name]})
	}
	list = append(list, setting{Name: markName, Value: mark})
	settings, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	names, err := json.Marshal(required)
	if err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	before := history.Witness()
	batch := &pgconn.Batch{}
	batch.ExecParams(setAll, [][]byte{settings}, nil, nil, nil)
	batch.ExecParams(readBack, [][]byte{names}, nil, nil, nil)
	results, err := conn.ExecBatch(ctx, batch).ReadAll()
	if err != nil {
		return refused(err, set)
	}
	if len(results) != 2 || len(results[1].Rows) != 1 {
		return errors.New("preparing a session: the server's answer is not PostgreSQL's")
	}
	row := results[1].Rows[0]
	pid, err := strconv.ParseUint(string(row[0]), 10, 32)
	if err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	have := map[string]string{}
	if len(row[1]) > 0 {
		if err := json.Unmarshal(row[1], &have); err != nil {
			return fmt.Errorf("preparing a session: %w", err)
		}
	}
	for _, name := range required {
		if have[name] != set[name] {
			return &SettingError{Name: name, Is: have[name], Must: set[name]}
		}
	}
	position, err := parsePosition(row[2:])
	if err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	s := &state{
		pid: uint32(pid), mark: mark, pooled: uint32(pid) != conn.PID(),
		commits: set["synchronous_commit"], path: set["search_path"],
	}
	conn.CustomData()[stateKey] = s
	return history.admit(conn, s, position, before)
}

// refused names the setting that the server does not take, where its message does.
func refused(err error, set Settings) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return fmt.Errorf("preparing a session: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if strings.Contains(pg.Message, `"`+name+`"`) {
			return &SettingError{Name: name, Must: set[name], Reason: pg.Message}
		}
	}
	return fmt.Errorf("preparing a session: %w", err)
}
