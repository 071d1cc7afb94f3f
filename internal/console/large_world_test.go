package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/trials/servertest"
)

// largeSources are the sources that the large world has in addition to the two of the small one, with their providers.
var largeSources = []struct{ name, provider string }{
	{"github", "github"}, {"gitlab", "gitlab-signed"}, {"shopify-eu", "shopify"}, {"shopify-us", "shopify"}, {"slack", "slack"}, {"paddle", "paddle"},
	{"linear", "linear"}, {"sentry", "sentry"}, {"intercom", "intercom"}, {"calendly", "calendly"}, {"typeform", "typeform"}, {"zendesk", "zendesk"},
	{"hubspot-marketing-automation", "standard-webhooks"}, {"clerk", "clerk"}, {"resend", "resend"}, {"svix", "svix"}, {"workos", "workos"},
	{"lemon-squeezy", "lemon-squeezy"}, {"openai", "openai"},
}

// largeTargets are the targets of the large world, each of which takes the effects of some of its sources.
var largeTargets = []string{"crm", "warehouse", "accounting-eu-central-1", "search-index", "chat"}

// newLargeWorld starts a world with 21 sources and fills it: what the small world holds comes through the product, and so many
// events over seven days come as rows.
func newLargeWorld(t *testing.T, events int) *world {
	t.Helper()
	var file strings.Builder
	targets := "  charge: {"
	for _, name := range largeTargets {
		targets = fmt.Sprintf("  %s: { kind: forward, url: \"%%[3]s/%s\", idempotent: true, allow: [127.0.0.0/8] }\n", name, name) + targets
	}
	file.WriteString(strings.Replace(worldFile, "  charge: {", targets, 1))
	for i, source := range largeSources {
		fmt.Fprintf(&file, "  %s:\n    provider: %s\n    tenant: %s\n    secrets: [\"file:%%[4]s/stripe-secret\"]\n    routes:\n", source.name, source.provider, []string{"acme", "globex"}[i%2])
		for n, route := range []string{"sync", "archive"} {
			fmt.Fprintf(&file, "      - { name: %s, target: %s }\n", route, largeTargets[(i+n)%len(largeTargets)])
		}
	}
	s := servertest.Start(t, servertest.Config{
		File: file.String(), Secrets: map[string]string{"stripe-secret": "whsec_Y29uc29sZS10ZXN0LWNvbnNvbGUtdGVzdA=="},
		Refusal: `no such account <script>window.attacked=1</script>`,
	})
	w := &world{server: s, pool: s.Pool, private: s.Private, mended: &s.TargetMended, token: s.Token(t, "admin", "", "admin"), secret: "whsec_Y29uc29sZS10ZXN0LWNvbnNvbGUtdGVzdA=="}
	w.fill(t)
	for _, one := range largeRows {
		sql, args := one, []any{}
		if strings.Contains(one, "$1") {
			args = append(args, events)
		}
		if _, err := w.pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%v in %s", err, sql)
		}
	}
	return w
}

// largeRows fill the tables. Event number n is $1 - n in age, and everything about it follows from n.
var largeRows = []string{
	`SET statement_timeout = 0`,
	`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length,
		id_unsigned, suspected_replay, deliveries, tenant)
	SELECT e.id, s.id, 'evt_' || substr(md5(n::text), 1, 6 + n % 18), (ARRAY['invoice.paid', 'charge.failed', 'customer.subscription.updated', 'issue', 'order/create', 'message.delivered'])[1 + n % 6],
		sha256(n::text::bytea), e.at, CASE WHEN n % 4001 = 0 THEN 'unusable' WHEN n % 3001 = 0 THEN 'unrouted' ELSE 'ok' END, 'default', e.id, 0, 0, 400 + n % 1900,
		false, n % 7001 = 0, 1 + CASE WHEN n % 37 = 0 THEN 2 ELSE 0 END, s.tenant
	FROM generate_series(1, $1::int) n
	CROSS JOIN LATERAL (SELECT now() - interval '7 days' * (1 - n::float8 / $1::int) - interval '20 seconds' AS at) t
	CROSS JOIN LATERAL (SELECT t.at, (lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid AS id) e
	JOIN (SELECT s.*, row_number() OVER (ORDER BY id) AS place, count(*) OVER () AS places FROM source s WHERE name <> 'quiet') s ON s.place = 1 + (n * 7919::bigint) % s.places
	ON CONFLICT DO NOTHING`,
	`INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, last_code, next_at, finished_at, attempts)
	SELECT (lpad(to_hex((extract(epoch FROM v.received_at) * 1000)::bigint), 12, '0') || '7001' || substr(md5(v.id::text || r.id), 1, 16))::uuid, v.id, r.id, x.state, v.event_id || '/' || r.name, 1,
		CASE x.state WHEN 'dead' THEN 'attempts_exhausted' WHEN 'indeterminate' THEN 'timeout' WHEN 'skipped' THEN 'discarded' WHEN 'retry' THEN 'status_5xx' END,
		CASE WHEN x.state IN ('dead', 'retry') THEN '503' END,
		CASE WHEN x.state IN ('pending', 'retry') THEN now() + interval '5 minutes' + interval '1 second' * (v.n % 3000) END,
		CASE WHEN x.state IN ('done', 'skipped') THEN v.received_at + interval '140 ms' END, CASE WHEN x.state = 'retry' THEN 4 ELSE 1 END
	FROM (SELECT v.*, ('x' || substr(v.id::text, 29, 8))::bit(32)::int AS n FROM inbox_event v WHERE v.admission = 'ok' AND v.body_length > 0 AND NOT EXISTS (SELECT FROM effect e WHERE e.event_id = v.id)) v
	JOIN route r ON r.source_id = v.source_id AND (r.name <> 'archive' OR v.n % 10 = 0) AND r.name NOT IN ('orders', 'charge', 'billing')
	CROSS JOIN LATERAL (SELECT CASE
		WHEN r.target = 'crm' AND v.n % 13 = 0 AND v.received_at > now() - interval '6 hours' THEN 'retry' WHEN v.n % 1009 = 0 THEN 'dead'
		WHEN v.n % 10007 = 0 THEN 'indeterminate' WHEN v.n % 9001 = 0 THEN 'skipped' ELSE 'done' END AS state) x`,
	`INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, reason, code, excerpt)
	SELECT id, 1, 1, 'initial', 'node-a', now() - interval '1 h', now() - interval '1 h' + interval '210 ms', state, 'status_5xx', '503', 'upstream connect error or disconnect/reset before headers'
	FROM effect WHERE state IN ('dead', 'retry') AND id NOT IN (SELECT effect_id FROM effect_attempt)`,
	`INSERT INTO stat_hour (source_id, kind, hour, route_id, tenant, n)
	SELECT v.source_id, 'recorded', date_trunc('hour', v.received_at), 0, coalesce(v.tenant, ''), count(*) FROM inbox_event v GROUP BY 1, 3, 5 ON CONFLICT DO NOTHING`,
	`INSERT INTO stat_minute (source_id, kind, minute, route_id, tenant, n)
	SELECT v.source_id, k.kind, date_trunc('minute', v.received_at), 0, coalesce(v.tenant, ''), greatest(1, count(*) / k.part) FROM inbox_event v, (VALUES ('recorded', 1), ('ack_10ms', 1), ('duplicate', 30), ('refused', 50)) k (kind, part)
	WHERE v.received_at > now() - interval '1 day' GROUP BY 1, 2, 3, 5, k.part HAVING count(*) >= k.part / 20 ON CONFLICT DO NOTHING`,
	`INSERT INTO stat_minute (source_id, kind, minute, route_id, tenant, n)
	SELECT v.source_id, CASE e.state WHEN 'dead' THEN 'dead' WHEN 'retry' THEN 'retried' ELSE 'done' END, date_trunc('minute', v.received_at), e.route_id, coalesce(v.tenant, ''), count(*)
	FROM inbox_event v JOIN effect e ON e.event_id = v.id WHERE v.received_at > now() - interval '1 day' GROUP BY 1, 2, 3, 4, 5 ON CONFLICT DO NOTHING`,
	`INSERT INTO stat_source (source_id, tenant, first_event_at, last_event_at) SELECT source_id, coalesce(tenant, ''), min(received_at), max(received_at) FROM inbox_event GROUP BY 1, 2 ON CONFLICT DO NOTHING`,
	`INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, finding, whole, method, url, remote, peer, headers, body, size)
	SELECT (lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0') || '7002' || substr(md5(n::text), 1, 16))::uuid, s.id, t.at, (ARRAY['mismatch', 'expired', 'malformed'])[1 + n % 3],
		'no live secret matches: the sender signs with another secret, or the body was changed on the way', NULL, n % 20 = 0, 'POST', '/in/' || s.name, '203.0.113.' || n % 7 || ':443', '203.0.113.' || n % 7,
		CASE WHEN n % 20 = 0 THEN '{}'::bytea END, CASE WHEN n % 20 = 0 THEN '{}'::bytea END, 600
	FROM generate_series(1, 1500) n, LATERAL (SELECT now() - interval '20 s' * n AS at) t JOIN source s ON s.name = 'github'`,
	`INSERT INTO conflict (id, event_id, source_id, sha256, payload_sha256, type, paths, deliveries, first_seen_at, last_seen_at, headers, body, id_unsigned, sequence_key, sequence_number)
	SELECT (lpad(to_hex((extract(epoch FROM v.received_at) * 1000)::bigint), 12, '0') || '7003' || substr(md5(v.id::text), 1, 16))::uuid, v.id, v.source_id, sha256(v.event_id::bytea), sha256(v.event_id::bytea), v.type,
		'{data.object.amount_total,data.object.customer_details.email}', 2, v.received_at, v.received_at, '{}', '{"amount":2}', false, '', ''
	FROM (SELECT * FROM inbox_event WHERE admission = 'ok' ORDER BY id DESC OFFSET 20 LIMIT 120) v ON CONFLICT DO NOTHING`,
	`INSERT INTO audit (id, at, actor, action, object, reason)
	SELECT (lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0') || '7004' || substr(md5(n::text), 1, 16))::uuid, t.at, (ARRAY['ann', 'bob of platform', 'token ci'])[1 + n % 3],
		(ARRAY['effect.resolve', 'replay.run', 'payload.reveal', 'conflict.dismiss'])[1 + n % 4], 'effect/' || (SELECT id FROM effect LIMIT 1), 'the target was mended after the release of Tuesday'
	FROM generate_series(1, 400) n, LATERAL (SELECT now() - interval '11 minutes' * n AS at) t`,
	`INSERT INTO stream (route_id, key_hash, key_label, applied, gap_since, started_at, updated_at)
	SELECT r.id, sha256(n::text::bytea), 'order-' || 40000 + n, n % 9, CASE WHEN n % 15 = 0 THEN now() - interval '20 minutes' END, now() - interval '1 h' * n, now() - interval '1 min' * n
	FROM generate_series(1, 200) n JOIN route r ON r.name = 'orders'`,
	`INSERT INTO pause (target, actor, reason, paused_at) VALUES ('chat', 'ann', 'their maintenance window until 18:00', now() - interval '35 minutes')`,
	`ANALYZE`,
}
