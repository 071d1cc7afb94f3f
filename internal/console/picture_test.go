package console_test

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/oncegate/oncegate/internal/trials/servertest"
)

// pictureFile is the configuration of the console in the picture of README.md.
const pictureFile = `
database: { url: %[1]q, schema: %[2]s }
targets:
  ledger: { kind: forward, url: "%[3]s/ledger", idempotent: true, allow: [127.0.0.0/8] }
  warehouse: { kind: forward, url: "%[3]s/warehouse", idempotent: true, allow: [127.0.0.0/8] }
  deploy: { kind: forward, url: "%[3]s/deploy", idempotent: true, allow: [127.0.0.0/8] }
sources:
  stripe:
    provider: stripe
    secrets: ["file:%[4]s/secret"]
    routes: [{ name: book, target: ledger }]
  shopify:
    provider: shopify
    secrets: ["file:%[4]s/secret"]
    routes: [{ name: fulfil, target: warehouse }]
  github:
    provider: github
    secrets: ["file:%[4]s/secret"]
    routes: [{ name: release, target: deploy }]
`

// pictureRows fill the tables with the events of half an hour, some of which are not done.
var pictureRows = []string{
	`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay, deliveries)
	SELECT e.id, s.id, p.prefix || substr(md5(n::text), 1, 14), p.types[1 + n / 3 % array_length(p.types, 1)], sha256(n::text::bytea), e.at, 'ok', 'default', e.id, 0, 0, 900 + n % 1700, false, false,
		CASE WHEN n % 11 = 0 THEN 3 WHEN n % 7 = 0 THEN 2 ELSE 1 END
	FROM generate_series(1, 40) n
	CROSS JOIN LATERAL (SELECT now() - interval '46 seconds' * n - interval '7 seconds' * (n * n % 5) AS at) t
	CROSS JOIN LATERAL (SELECT t.at, (lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid AS id) e
	JOIN (VALUES
		(0, 'stripe', 'evt_', ARRAY['invoice.paid', 'charge.succeeded', 'customer.subscription.updated', 'charge.refunded']),
		(1, 'shopify', '', ARRAY['orders/create', 'orders/paid', 'fulfillments/create']),
		(2, 'github', '', ARRAY['push', 'release', 'pull_request'])) p (part, source, prefix, types) ON p.part = CASE n % 8 WHEN 2 THEN 1 WHEN 5 THEN 1 WHEN 7 THEN 2 ELSE 0 END
	JOIN source s ON s.name = p.source`,
	`INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, last_code, next_at, finished_at, attempts)
	SELECT (lpad(to_hex((extract(epoch FROM v.received_at) * 1000)::bigint), 12, '0') || '7001' || substr(md5(v.id::text), 1, 16))::uuid, v.id, r.id, x.state, v.event_id || '/' || r.name, 1,
		CASE x.state WHEN 'dead' THEN 'attempts_exhausted' WHEN 'retry' THEN 'status_5xx' END, CASE WHEN x.state IN ('dead', 'retry') THEN '503' END,
		CASE WHEN x.state = 'retry' THEN now() + interval '5 minutes' END, CASE WHEN x.state = 'done' THEN v.received_at + interval '140 ms' END, CASE x.state WHEN 'dead' THEN 12 WHEN 'retry' THEN 3 ELSE 1 END
	FROM (SELECT v.*, ('x' || substr(v.id::text, 29, 8))::bit(32)::int AS n FROM inbox_event v) v
	JOIN route r ON r.source_id = v.source_id
	CROSS JOIN LATERAL (SELECT CASE WHEN r.target = 'warehouse' AND v.n < 6 THEN 'retry' WHEN r.target = 'warehouse' AND v.n < 11 THEN 'dead' ELSE 'done' END AS state) x`,
	`INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, reason, code, excerpt)
	SELECT id, 1, 1, 'initial', 'node-a', now() - interval '1 h', now() - interval '1 h' + interval '210 ms', state, 'status_5xx', '503', 'the warehouse is closed for stocktaking'
	FROM effect WHERE state IN ('dead', 'retry')`,
	`ANALYZE`,
}

// TestPicture draws the events in the console for README.md, light and dark, into the folder that PICTURE names.
func TestPicture(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	folder := os.Getenv("PICTURE")
	if folder == "" {
		t.Skip("PICTURE names no folder")
	}
	ctx := browser(t)
	s := servertest.Start(t, servertest.Config{File: pictureFile, Secrets: map[string]string{"secret": "whsec_Y29uc29sZS10ZXN0LWNvbnNvbGUtdGVzdA=="}})
	for _, sql := range pictureRows {
		if _, err := s.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v in %s", err, sql)
		}
	}
	r := &reader{t: t, ctx: ctx, at: s.Private.URL}
	r.login(s.Token(t, "ann", "", "admin"))
	for _, theme := range []string{"light", "dark"} {
		r.open("/events")
		r.do("choosing "+theme, chromedp.EmulateViewport(1280, 632), chromedp.Click(`button[name="theme"][value="`+theme+`"]`, chromedp.ByQuery), chromedp.WaitReady("html[data-theme="+theme+"]", chromedp.ByQuery))
		r.open("/events")
		var drawn []byte
		r.do("drawing", chromedp.CaptureScreenshot(&drawn))
		if err := os.WriteFile(filepath.Join(folder, "console-"+theme+".png"), withPalette(t, drawn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// isNear reports whether hardly anybody sees two colours apart.
func isNear(a, b color.RGBA) bool {
	apart := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	return apart(a.R, b.R)+apart(a.G, b.G)+apart(a.B, b.B) < 16
}

// withPalette makes a picture smaller: it keeps the 256 most frequent colours of those that differ visibly.
func withPalette(t *testing.T, drawn []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(drawn))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := range from.Bounds().Dy() {
		for x := range from.Bounds().Dx() {
			counts[at(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return counts[b] - counts[a] })
	var palette color.Palette
	for _, c := range frequent {
		if len(palette) < 256 && !slices.ContainsFunc(palette, func(p color.Color) bool { return isNear(c, p.(color.RGBA)) }) {
			palette = append(palette, c)
		}
	}
	to := image.NewPaletted(from.Bounds(), palette)
	draw.Draw(to, to.Bounds(), from, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
