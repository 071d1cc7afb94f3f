package config

func targetReference() []Section {
	common := []Key{
		{"kind", "required", "`forward`, `sql`, `mail`, `suppress`, or `noop`, which does nothing and is for benchmarks."},
		{"timeout", "`10s`", "The longest attempt. It must be shorter than `work.lease` by a fifth of the lease, at most 5 s."},
		{"retry", "see [Retry](#retry)", "When a failed attempt is repeated, and how often."},
		{"concurrency", "three quarters of the workers at most", "How many attempts this process makes at once."},
		{"rate", "none", "How many attempts this process begins: `50/s`, `100/m` or `1000/h`. An effect above the rate waits and spends no attempt."},
		{"breaker", "see [Breaker](#breaker)", "When attempts at a failing target stop. `off` turns the breaker off."},
	}
	with := func(keys ...Key) []Key { return append(append([]Key{}, common...), keys...) }
	return []Section{
		{Name: "target noop", Title: "Targets of every kind", Prefix: "targets.<name>.", Text: "Limits hold for each process.", Keys: common},
		{Name: "retry", Title: "Retry", Prefix: "retry.", Text: "`retry` may stand at a target or at a route. A route's keys replace those of its target.", Keys: []Key{
			{"attempts", "`12`", "How many attempts are made before the effect is a dead letter."},
			{"base", "`5s`", "The pause after the first failure. Each further pause is twice as long, with jitter."},
			{"max", "`1h`", "The longest pause."},
			{"deadline", "none", "How long after the receipt of the event, or after fresh attempts were given, an attempt may begin. After that no attempt begins, not even the first. An effect that waits for a breaker, a rate, a limit or its turn in a sequence is then dead (`deadline_passed`)."},
		}},
		{Name: "breaker", Title: "Breaker", Prefix: "breaker.", Keys: []Key{
			{"failures", "`10`", "How many failures in a row stop attempts at the target."},
			{"open", "`30s`", "How long they stop."},
		}},
		{Name: "target forward", Title: "Targets over HTTP (`forward`)", Prefix: "targets.<name>.", Text: "A forward sends each event as one HTTP request. See [A target over HTTP](../guides/http-target.md).", Keys: with(
			Key{"url", "required", "Where the request goes. [Expressions](#expressions) in braces may stand in its path and its query, as in `https://api.example/orders/{body.id}`. See [Values of the event in the address](../guides/http-target.md#values-of-the-event-in-the-address)."},
			Key{"idempotent", "required", "`true`: the target recognises a key that it has seen, and a failed attempt is retried under that key. `false`: an effect is sent again only if it certainly did not happen. A single 5xx or timeout then leaves its outcome to a person or a probe."},
			Key{"method", "`POST`", "`POST`, `PUT` or `PATCH`."},
			Key{"sign", "none", "Secrets that the request is signed with ([Standard Webhooks](https://www.standardwebhooks.com)), newest first."},
			Key{"allow", "none", "Private networks that the host name of `url` may lead to. An address that is written out in `url` is allowed. Link-local addresses, metadata services and multicast are never allowed."},
			Key{"key_header", "`Idempotency-Key`", "The header that carries the idempotency key."},
			Key{"key_window", "for ever", "How long the target remembers a key. Later than this after an attempt whose outcome is unknown, no attempt is made."},
			Key{"headers", "none", "Headers that every request carries. Their values are never printed."},
			Key{"pass_headers", "none", "Headers of the delivery that are sent on, such as `[X-GitHub-Event]`. They are kept with the delivery for that. Credentials are refused."},
			Key{"retry_on", "`[429]`", "The statuses (400 to 599) by which the target says that it has not begun the work. They are retried even with `idempotent: false`. The list replaces the default: `[503]` makes a 429 an unknown outcome, and `[]` retries no answer. See [Which answers are retried](../guides/http-target.md#which-answers-are-retried) before you add one."},
			Key{"keep_reply", "`false`", "Keep the body of a successful reply as the result of the effect, up to 64 KiB."},
			Key{"replayed_header", "`Idempotent-Replayed`", "The header by which a reply says that the target knew the key."},
			Key{"probe", "none", "How the target is asked about an unknown outcome."},
			Key{"dry_run", "none", "How the target is asked what it would do. See [Dry run](#dry-run)."},
		)},
		{Name: "probe", Title: "Probe", Prefix: "probe.", Text: "A probe asks a target over HTTP whether an effect happened. See [Unknown outcomes](../guides/unknown-outcomes.md).", Keys: []Key{
			{"url", "required", "The address to ask, with `{key}`, `{event}` or `{event_id}` in it."},
			{"headers", "none", "Headers of the question. Their values are never printed."},
			{"done", "`[200]`", "Statuses that mean that the effect happened. The body of the answer, up to 64 KiB, becomes the result of the effect."},
			{"absent", "`[404]`", "Statuses that mean that it did not."},
			{"every", "`30s`", "The pause between two questions about one effect."},
			{"absent_after", "`10m`", "How old the last attempt must be before `absent` is believed, since the request may still be on its way."},
			{"timeout", "`10s`", "The longest question."},
		}},
		{Name: "dry_run", Title: "Dry run", Prefix: "dry_run.", Text: "A dry run asks a target over HTTP what it would do, in the way that the target offers for that: a parameter, a header or an endpoint of its own. Only `oncegate replay plan --compare --results` asks. The request is made of these keys and of nothing else of the target but its `sign`, `allow`, `timeout`, `concurrency`, `rate` and `breaker`. It carries `Oncegate-Dry-Run` and no idempotency key. See [Audit a run](../guides/audit-a-run.md#ask-the-target-what-it-would-do).", Keys: []Key{
			{"url", "required", "The address to ask. Expressions in braces may stand in it as in the `url` of the target, but for `key_uuid`."},
			{"method", "`POST`", "`GET`, `POST`, `PUT` or `PATCH`. A `GET` has no body."},
			{"headers", "none", "Headers of the question. The headers of the target are not sent along. Their values are never printed."},
			{"body", "what would be sent today", "An expression, or an object of expressions, that makes a JSON body, as in `map` of a route. They see no `key`."},
			{"volatile", "none", "Members in which the answer may differ from the stored result: paths such as `id` or `items.*.at`, in which `*` is any member or element."},
		}},
		{Name: "target sql", Title: "Targets in SQL (`sql`)", Prefix: "targets.<name>.", Text: "Either `call` or `statement` is required. Both run in the transaction that records the outcome. See [A target in SQL](../guides/sql-target.md).", Keys: with(
			Key{"call", "none", "A function of one `jsonb` argument, such as `ledger.apply_event`."},
			Key{"statement", "none", "One SQL statement with parameters written as `@name`."},
			Key{"keep_reply", "`false`", "Keep what the function returns, or the rows of the statement (`RETURNING`), as the result of the effect, as JSON up to 64 KiB. Such effects are carried out one at a time and not in groups."},
			Key{"dead_on", "none", "SQLSTATEs such as `P0002`, or classes such as `\"38\"`, that make a dead letter without another attempt. Classes 22, 23 and 42 and P0001 always do. Every other error is retried. See [Which errors are retried](../guides/sql-target.md#which-errors-are-retried)."},
			Key{"parameters", "none", "An expression for each parameter of `statement`."},
		)},
		{Name: "target mail", Title: "Mail (`mail`)", Prefix: "targets.<name>.", Text: "See [Mail](../guides/mail.md).", Keys: with(
			Key{"smtp", "required", "`smtp://host:587` or `smtps://host:465`."},
			Key{"from", "required", "The sender's address, such as `Shop <shop@example.com>`."},
			Key{"starttls", "`required`", "`off` sends in the clear, without a password."},
			Key{"username", "none", "The account at the mail server."},
			Key{"password", "none", "The password of the account, as a list of secret references."},
			Key{"hello", "`localhost`", "The name that this process gives itself to the mail server."},
			Key{"templates", "none", "A directory with `<name>.subject.txt` and `<name>.txt`, `<name>.html` or both. A relative path starts at the configuration file."},
			Key{"dkim", "none", "How messages are signed with DKIM. Without it the mail server must sign them. See [SPF, DKIM and DMARC](../guides/mail.md#spf-dkim-and-dmarc)."},
			Key{"allow", "none", "Private networks that the host name of `smtp` may lead to."},
		)},
		{Name: "dkim", Title: "DKIM", Prefix: "dkim.", Text: "All keys are required.", Keys: []Key{
			{"domain", "required", "The domain that answers for the messages, such as `example.com`."},
			{"selector", "required", "The name of the key: the public key is the TXT record of `<selector>._domainkey.<domain>`."},
			{"key", "required", "A reference to the private key in PEM: RSA of 2048 bits or more, or Ed25519."},
		}},
		{Name: "target suppress", Title: "Suppressed addresses (`suppress`)", Prefix: "targets.<name>.", Text: "Suppresses the addresses that an event names, in the transaction that records the outcome. See [Suppressed addresses](../guides/mail.md#suppressed-addresses).", Keys: with(
			Key{"address", "required", "An expression for one address or a list of them. An empty list suppresses nothing."},
			Key{"reason", "required", "`bounce`, `complaint`, `unsubscribe`, `manual`, or an expression that gives one of them."},
			Key{"for_target", "every target", "The mail target whose messages are not sent to these addresses."},
			Key{"keep", "for ever", "How long the addresses are suppressed, from the receipt of the event."},
		)},
	}
}
