package soak

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// sampler takes samples of a process and of its database.
type sampler struct {
	db     *pgx.Conn
	schema string
	node   *rig.Node
	load   *load
}

// processMetrics are the metrics that the process reports about itself.
var processMetrics = map[string]struct {
	name string
	unit float64
}{
	"process_resident_memory_bytes": {"rss", mib},
	"go_memstats_heap_inuse_bytes":  {"heap", mib},
	"go_goroutines":                 {"goroutines", 1},
	"process_open_fds":              {"files", 1},
}

// Rows are counted only where nothing prunes them, and never estimated. Each partition of bodies is a table.
const readDatabase = `
SELECT
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND application_name LIKE 'oncegate%'),
    (SELECT count(*) FROM effect WHERE next_at IS NOT NULL),
    pg_table_size('inbox_event'), pg_indexes_size('inbox_event'),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'inbox\_body\_%'),
    pg_total_relation_size('effect'), pg_total_relation_size('effect_attempt'), pg_total_relation_size('river_job')`

func (m *sampler) sample(ctx context.Context, at time.Duration) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s := Sample{At: at, Values: map[string]float64{}}
	if err := m.readProcess(ctx, s.Values); err != nil {
		return s, err
	}
	var connections, unsettled, event, indexes, bodies, effects, attempts, jobs int64
	err := m.db.QueryRow(ctx, readDatabase, m.schema).Scan(&connections, &unsettled, &event, &indexes, &bodies, &effects, &attempts, &jobs)
	if err != nil {
		return s, fmt.Errorf("measuring the database: %w", err)
	}
	v := s.Values
	v["connections"], v["unsettled"] = float64(connections), float64(unsettled)
	v["effect"], v["effect_attempt"], v["river_job"] = float64(effects)/mib, float64(attempts)/mib, float64(jobs)/mib
	if rows := float64(m.load.total().New); rows > 0 {
		v["inbox_event a row"], v["inbox_event indexes a row"], v["inbox_body a row"] = float64(event)/rows, float64(indexes)/rows, float64(bodies)/rows
	}
	m.load.takePercentiles(v)
	info, err := os.Stat(m.node.Log)
	if err != nil {
		return s, fmt.Errorf("measuring the log: %w", err)
	}
	v["log"] = float64(info.Size()) / 1024
	return s, nil
}

func (m *sampler) readProcess(ctx context.Context, values map[string]float64) error {
	metrics, err := m.node.Metrics(ctx)
	if err != nil {
		return err
	}
	for name, t := range processMetrics {
		if value, ok := metrics[name]; ok {
			values[t.name] = value / t.unit
		}
	}
	return nil
}
