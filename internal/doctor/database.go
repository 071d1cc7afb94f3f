package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/migrations"
)

func durability(ctx context.Context, cfg *Config) (found []Finding, err error) {
	names, err := inbox.Volatile(ctx, cfg.Pool)
	for _, name := range names {
		found = append(found, Finding{
			State: Fault, Subject: name, Text: name + " is off: a crash of the server's machine can lose events that were acknowledged",
			Remedy: "ALTER SYSTEM SET " + name + " = on; SELECT pg_reload_conf();",
		})
	}
	if err != nil {
		return found, err
	}
	err = inbox.CheckStandbys(ctx, cfg.Pool, cfg.Settings.NeedStandby())
	if lacks, ok := errors.AsType[*inbox.NoStandbyError](err); ok {
		return append(found, Finding{
			State: Fault, Subject: strings.Join(lacks.Keys, ", "), Text: "the server names no synchronous standby, so deliveries are answered 503",
			Remedy: "set synchronous_standby_names at the server, or the key to server, which waits for standbys only while the server names some",
		}), nil
	}
	return found, err
}

// A role without pg_monitor sees the rows of standbys without their state.
const readStandbys = `
SELECT current_setting('synchronous_standby_names'), count(*) FILTER (WHERE state IS NULL),
    count(*) FILTER (WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')), count(*) FILTER (WHERE sync_state = 'async')
FROM pg_stat_replication`

func standbys(ctx context.Context, cfg *Config) ([]Finding, error) {
	var names string
	var hidden, synchronous, asynchronous int
	if err := cfg.Pool.QueryRow(ctx, readStandbys).Scan(&names, &hidden, &synchronous, &asynchronous); err != nil {
		return nil, fmt.Errorf("reading the standbys: %w", err)
	}
	return standbysFound(names, hidden, synchronous, asynchronous), nil
}

// standbysFound judges the value of synchronous_standby_names and the numbers of standbys.
func standbysFound(names string, hidden, synchronous, asynchronous int) []Finding {
	switch {
	case hidden > 0:
		return []Finding{{
			State: Unknown, Text: "this role may not see whether the standbys are synchronous",
			Remedy: "GRANT pg_monitor TO the role of database.url",
		}}
	case names != "" && synchronous == 0:
		return []Finding{{
			State: Fault, Subject: "synchronous_standby_names", Text: "no synchronous standby is connected: every commit waits for one, so deliveries are answered 503",
			Remedy: "start the standby, or remove it from synchronous_standby_names",
		}}
	case asynchronous > 0 && synchronous == 0:
		return []Finding{{
			State: Warning, Subject: "synchronous_standby_names", Text: "replication is asynchronous: a failover can lose the last events that were acknowledged",
			Remedy: "name the standby in synchronous_standby_names, or deliver lost events again after a failover with `oncegate reconcile`",
		}}
	}
	return nil
}

func schemaFits(ctx context.Context, cfg *Config) ([]Finding, error) {
	status, err := migrations.Read(ctx, cfg.Pool)
	if err != nil {
		return nil, err
	}
	if err := status.Check(); err != nil {
		return []Finding{{State: Fault, Text: oneLine(err), Remedy: "oncegate migrate up"}}, nil
	}
	return nil, nil
}

// The indexes of the schema, with those that cannot be used because their creation was interrupted.
const readIndexes = `
SELECT c.relname, i.indisvalid AND i.indisready
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = current_schema()::regnamespace`

func indexes(ctx context.Context, cfg *Config) (found []Finding, err error) {
	rows, err := cfg.Pool.Query(ctx, readIndexes)
	if err != nil {
		return nil, fmt.Errorf("reading the indexes: %w", err)
	}
	valid := map[string]bool{}
	var name string
	var usable bool
	if _, err = pgx.ForEachRow(rows, []any{&name, &usable}, func() error { valid[name] = usable; return nil }); err != nil {
		return nil, fmt.Errorf("reading the indexes: %w", err)
	}
	if len(valid) == 0 {
		return nil, nil // there are no tables, which is the finding of another check
	}
	for _, name := range slices.Sorted(keysOf(valid)) {
		if !valid[name] {
			found = append(found, Finding{
				State: Fault, Subject: name, Text: "the index is invalid, so statements that need it read whole tables",
				Remedy: "REINDEX INDEX CONCURRENTLY " + cfg.Settings.Database.Schema + "." + name + ";",
			})
		}
	}
	wanted, err := migrations.Indexes()
	if err != nil {
		return found, err
	}
	for _, name := range wanted {
		if _, ok := valid[name]; !ok {
			found = append(found, Finding{
				State: Fault, Subject: name, Text: "the index does not exist, so statements that need it read whole tables",
				Remedy: "create it again as `CREATE INDEX` of the migration does; `oncegate migrate status` shows the version",
			})
		}
	}
	return found, nil
}

func clocks(ctx context.Context, cfg *Config) ([]Finding, error) {
	clock := inbox.NewClock(cfg.Pool, cfg.Now)
	defer clock.Stop()
	if err := clock.Start(ctx); err != nil {
		return nil, err
	}
	skew := clock.Skew()
	state := Warning
	switch {
	case clock.Check() != nil:
		state = Fault
	case skew.Abs() < time.Second:
		return nil, nil
	}
	return []Finding{{
		State: state, Text: fmt.Sprintf("the clock of the database is %s %s the clock of this machine", skew.Abs().Round(time.Millisecond), either(skew > 0, "ahead of", "behind")),
		Remedy: "synchronise both machines with NTP (chronyd, systemd-timesyncd)",
	}}, nil
}

// Reserved slots are not for us. The limits of the role and of the database are -1 if there are none.
const readConnections = `
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, count(*),
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user), count(*) FILTER (WHERE usename = current_user),
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()), count(*) FILTER (WHERE datname = current_database())
FROM pg_stat_activity
WHERE backend_type = 'client backend' OR backend_type IS NULL`

// connectionsBeside is how many connections a process opens in addition to those of database.*_connections: the pools for operators'
// requests and lists, one connection that listens for work, and one for each lock of a leader.
const connectionsBeside = 12

func connections(ctx context.Context, cfg *Config) (found []Finding, err error) {
	var most, used, ofRole, usedByRole, ofDatabase, usedInDatabase int
	if err := cfg.Pool.QueryRow(ctx, readConnections).Scan(&most, &used, &ofRole, &usedByRole, &ofDatabase, &usedInDatabase); err != nil {
		return nil, fmt.Errorf("reading the limits of connections: %w", err)
	}
	db := cfg.Settings.Database
	needed := int(db.GateConnections+db.WorkConnections+db.QueueConnections) + connectionsBeside
	for _, limit := range []struct {
		name       string
		most, used int
		remedy     string
	}{
		{"max_connections", most, used, "raise max_connections and restart PostgreSQL, or lower database.*_connections"},
		{"the role's connection limit", ofRole, usedByRole, "ALTER ROLE ... CONNECTION LIMIT"},
		{"the database's connection limit", ofDatabase, usedInDatabase, "ALTER DATABASE ... CONNECTION LIMIT"},
	} {
		if free := limit.most - limit.used; limit.most >= 0 && free < needed {
			found = append(found, Finding{
				State: Warning, Subject: limit.name,
				Text:   fmt.Sprintf("%d of %d connections are free, and one more process, as a rolling restart starts it, needs up to %d", max(free, 0), limit.most, needed),
				Remedy: limit.remedy,
			})
		}
	}
	return found, nil
}

// PostgreSQL refuses writes at an age of 2.1 billion. autovacuum_freeze_max_age is 200 million unless it was changed.
const readVacuum = `
SELECT current_setting('autovacuum')::boolean, current_setting('track_counts')::boolean, age(datfrozenxid)
FROM pg_database WHERE datname = current_database()`

// agedTransactions is the age of the oldest transaction id at which autovacuum has not kept up for a long time.
const agedTransactions = 1_000_000_000

func vacuum(ctx context.Context, cfg *Config) (found []Finding, err error) {
	var on, counts bool
	var age int
	if err := cfg.Pool.QueryRow(ctx, readVacuum).Scan(&on, &counts, &age); err != nil {
		return nil, fmt.Errorf("reading the state of autovacuum: %w", err)
	}
	for name, is := range map[string]bool{"autovacuum": on, "track_counts": counts} {
		if !is {
			found = append(found, Finding{
				State: Fault, Subject: name, Text: name + " is off: tables with jobs and effects grow without end, and every statement gets slower",
				Remedy: "ALTER SYSTEM SET " + name + " = on; SELECT pg_reload_conf();",
			})
		}
	}
	if age > agedTransactions {
		found = append(found, Finding{
			State: Fault, Subject: "transaction ids", Text: fmt.Sprintf("the oldest transaction id is %d transactions old; PostgreSQL stops taking writes at 2.1 billion", age),
			Remedy: "end old transactions and replication slots, then VACUUM (FREEZE) the database",
		})
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Subject, b.Subject) })
	return found, nil
}

// PostgreSQL has no rights on channels and advisory locks: every role that may connect may send a notification to every channel of the
// database, and take every lock. Neither stops Oncegate, but a lock delays the task that it guards. has_database_privilege takes public
// as the name of a role.
const readRights = `
SELECT current_database(), current_user::text, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
    has_schema_privilege('public', current_schema(), 'CREATE'), has_schema_privilege('public', current_schema(), 'USAGE'),
    has_database_privilege('public', current_database(), 'CONNECT'),
    (SELECT count(*) FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname <> current_user)`

func rights(ctx context.Context, cfg *Config) (found []Finding, err error) {
	var database, role string
	var superuser, creates, uses, connects bool
	var others int
	if err := cfg.Pool.QueryRow(ctx, readRights).Scan(&database, &role, &superuser, &creates, &uses, &connects, &others); err != nil {
		return nil, fmt.Errorf("reading the rights: %w", err)
	}
	schema := quote(cfg.Settings.Database.Schema)
	if creates || uses {
		found = append(found, Finding{
			State: Fault, Subject: "schema " + cfg.Settings.Database.Schema, Text: "every role of the server may use the schema: it can read what is not protected, or put functions in the way of ours",
			Remedy: "REVOKE ALL ON SCHEMA " + schema + " FROM PUBLIC;",
		})
	}
	if connects && others > 0 {
		found = append(found, Finding{
			State: Warning, Subject: "database " + database,
			Text:   fmt.Sprintf("every role of the server may connect, wake the workers with NOTIFY and take the locks of tasks such as prune; there are %d other roles that can log in", others),
			Remedy: fmt.Sprintf("REVOKE CONNECT ON DATABASE %s FROM PUBLIC; GRANT CONNECT ON DATABASE %s TO %s;", quote(database), quote(database), quote(role)),
		})
	}
	if superuser {
		found = append(found, Finding{
			State: Warning, Subject: "role " + role, Text: "database.url names a superuser, which reaches everything on the server; Oncegate needs no such right",
			Remedy: "create a role that owns the schema " + cfg.Settings.Database.Schema + " and name it in database.url",
		})
	}
	return found, nil
}

const readPausedQueues = `SELECT name, paused_at FROM river_queue WHERE paused_at IS NOT NULL ORDER BY name`

func queues(ctx context.Context, cfg *Config) (found []Finding, err error) {
	rows, err := cfg.Pool.Query(ctx, readPausedQueues)
	if err != nil {
		return nil, fmt.Errorf("reading River's queues: %w", err)
	}
	var name string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		found = append(found, Finding{
			State: Warning, Subject: "queue " + name, Text: "River's queue was marked as paused at " + at.UTC().Format(time.RFC3339) + "; Oncegate ignores the mark, so nothing stopped",
			Remedy: fmt.Sprintf("pause with `oncegate targets pause`, find the role that wrote the mark, and remove the mark: UPDATE %s.river_queue SET paused_at = NULL WHERE name = '%s';", quote(cfg.Settings.Database.Schema), strings.ReplaceAll(name, "'", "''")),
		})
		return nil
	})
	return found, err
}

func processes(ctx context.Context, cfg *Config) (found []Finding, err error) {
	nodes, err := node.List(ctx, cfg.Pool)
	if err != nil {
		return nil, err
	}
	configurations, versions := map[string]bool{}, map[string]bool{}
	roles := map[string]int{"receive": 0, "work": 0}
	for _, n := range nodes {
		if !n.Live {
			continue
		}
		configurations[n.Configuration], versions[n.Version] = true, true
		for _, role := range n.Roles {
			roles[role]++
		}
	}
	for _, missing := range []struct{ role, text string }{
		{"receive", "no process receives, so senders get no answer"},
		{"work", "no process works, so effects are recorded and wait"},
	} {
		if roles[missing.role] == 0 {
			found = append(found, Finding{State: Warning, Subject: missing.role, Text: missing.text, Remedy: "start `oncegate serve --role " + missing.role + "`"})
		}
	}
	own := cfg.Settings.Fingerprint()
	switch {
	case len(configurations) > 1:
		found = append(found, Finding{
			State: Warning, Text: fmt.Sprintf("the live processes have %d configurations, so an effect depends on which of them carries it out", len(configurations)),
			Remedy: "start them all with one configuration; `oncegate nodes list` shows which has which",
		})
	case len(configurations) == 1 && !configurations[own]:
		found = append(found, Finding{
			State: Warning, Text: "the live processes have another configuration than the one examined here",
			Remedy: "examine with their configuration, or restart them with this one",
		})
	}
	if len(versions) > 1 {
		found = append(found, Finding{
			State: Warning, Text: "the live processes run " + strings.Join(slices.Sorted(keysOf(versions)), " and "), Remedy: "finish the upgrade; `oncegate nodes list` shows the versions",
		})
	}
	return found, nil
}

func keyring(ctx context.Context, cfg *Config) (found []Finding, err error) {
	if cfg.Keys == nil {
		return []Finding{{
			State: Warning, Subject: "seal.keyring", Text: "bodies, headers and results are stored in plain",
			Remedy: "name a file in seal.keyring and run `oncegate keys rotate`, which makes it",
		}}, nil
	}
	nodes, err := node.List(ctx, cfg.Pool)
	if err != nil {
		return nil, err
	}
	active := cfg.Keys.Ring().Active()
	for _, n := range node.Lacking(nodes, active) {
		found = append(found, Finding{
			State: Fault, Subject: "process " + n.Name, Text: fmt.Sprintf("the process lacks key %d, with which this configuration seals, so it cannot carry out those effects", active.ID),
			Remedy: "give it the same keyring; it reads the file again by itself",
		})
	}
	return found, nil
}

func warnings(_ context.Context, cfg *Config) (found []Finding, err error) {
	for _, text := range cfg.Settings.Warnings {
		subject, rest, ok := strings.Cut(text, ": ")
		if !ok {
			subject, rest = "", text
		}
		found = append(found, Finding{State: Warning, Subject: subject, Text: rest})
	}
	return found, nil
}
