package console

// Place says where something can be done: by an operation of the API, by commands, and on a page.
type Place struct {
	// Operation is the operation's id, such as list_events. It is empty for a command without an operation.
	Operation string

	// Commands are the commands that call the operation, without the name of the program.
	Commands []string

	// Page is the route of the page that calls the operation or has its forms. It is empty if there is none.
	Page string

	// Reason says why there is no operation, no command or no page. It is empty if there are all three.
	Reason string
}

// Places returns all places. Every operation and every command is in at least one. Tests compare them with what pages
// and commands call.
func Places() []Place {
	var out []Place
	for _, part := range [][]Place{eventPlaces, decisionPlaces, setupPlaces, accessPlaces, machinePlaces} {
		out = append(out, part...)
	}
	return out
}

// only returns a place for a command without an operation.
func only(reason string, commands ...string) Place { return Place{Commands: commands, Reason: reason} }

var eventPlaces = []Place{
	{"show_attention", nil, "/", "`oncegate status` says how many wait; the page leads to each of them"},
	{"show_figures", nil, "/overview", "figures are drawn; a script reads `/metrics` or the API"},
	{"show_names", nil, "/events", "the filters of pages offer them; each list of the command line shows its own"},
	{"show_status", []string{"status"}, "/nodes", ""},
	{"list_events", []string{"events list", "events tail", "listen"}, "/events", ""},
	{"show_event", []string{"events show"}, "/events/{id}", ""},
	{"read_event_body", []string{"events show"}, "", "a page reveals the payload with its headers, by `reveal_payload`"},
	{"show_payload", nil, "/events/{id}", "`oncegate events show --body` writes all of it"},
	{"reveal_payload", nil, "/events/{id}/payload", "`oncegate events show --body` writes all of it"},
	{"compare_payloads", nil, "/compare", "`diff` compares what two `oncegate events show --body` write"},
	{"erase_event", []string{"erase"}, "/events/{id}", ""},
	{"erase_events", []string{"erase"}, "", "it erases by a label, whose value must not be in an address or a history"},
	{"find_reference", []string{"dead show"}, "", "pages link to what they name, and the search of the console takes the same references"},
	{"list_effects", []string{"effects list"}, "/effects", ""},
	{"group_effects", []string{"effects list"}, "/sources/{name}", ""},
	{"show_effect", []string{"effects show"}, "/effects/{id}", ""},
	{"list_effect_items", []string{"effects list"}, "/effects/{id}", ""},
	{"list_attempts", nil, "", "an effect is shown with its attempts"},
}

var decisionPlaces = []Place{
	{"list_dead_letters", []string{"dead list"}, "/dead", ""},
	{"group_dead_letters", []string{"dead list"}, "/dead", ""},
	{"show_dead_letter", []string{"dead show"}, "", "a dead letter is an effect or an event, and is shown as that"},
	{"discard_dead_letters", []string{"dead discard"}, "/dead/discard", ""},
	{"replay_dead_letters", nil, "", "a page and `oncegate dead replay` plan and run in two steps, so that you see the plan"},
	{"list_indeterminates", nil, "", "they are listed as the effects in that state"},
	{"group_indeterminates", []string{"effects resolve"}, "/unknown", ""},
	{"resolve_effect", []string{"effects resolve"}, "/effects/{id}", ""},
	{"cancel_list", []string{"effects cancel"}, "/effects/{id}", ""},
	{"resolve_effects", []string{"effects resolve"}, "/unknown/resolve", ""},
	{"list_conflicts", []string{"conflicts list"}, "/conflicts", ""},
	{"show_conflict", []string{"conflicts show"}, "/conflicts/{id}", ""},
	{"list_conflict_changes", []string{"conflicts show"}, "/conflicts/{id}", ""},
	{"read_conflict_body", []string{"conflicts show"}, "", "a page reveals the payload with its headers, by `reveal_payload`"},
	{"admit_conflict", []string{"conflicts admit"}, "/conflicts/{id}", ""},
	{"dismiss_conflicts", []string{"conflicts dismiss"}, "/conflicts/dismiss", ""},
	{"group_refusals", []string{"refusals list", "refusals acknowledge"}, "/refusals", ""},
	{"acknowledge_refusals", []string{"refusals acknowledge"}, "/refusals/acknowledge", ""},
	{"list_refusals", []string{"refusals list"}, "/refusals", ""},
	{"show_refusal", []string{"refusals show"}, "/refusals/{id}", ""},
	{"read_refusal_body", []string{"refusals show"}, "", "a page reveals the payload with its headers, by `reveal_payload`"},
	{"reverify_refusals", []string{"refusals reverify"}, "/refusals/reverify", ""},
	{"erase_refusals", []string{"refusals erase"}, "", "it erases by a text that must not be in an address or a history"},
	{"list_streams", []string{"streams list"}, "/streams", ""},
	{"show_stream", []string{"streams show"}, "/streams/{ref}", ""},
	{"list_undecided_effects", []string{"streams list"}, "/streams", ""},
	{"skip_stream", []string{"streams skip"}, "/streams/{ref}", ""},
	{"skip_effect", []string{"streams skip"}, "/effects/{id}", ""},
	{"unblock_stream", []string{"streams unblock"}, "/streams/{ref}", ""},
	{"apply_stream", []string{"streams apply"}, "/streams/{ref}", ""},
	{"apply_effect", []string{"streams apply"}, "/effects/{id}", ""},
	{"list_replays", []string{"replay list"}, "/replays", ""},
	{"plan_replay", []string{"replay plan", "dead replay"}, "/replays", ""},
	{"show_replay", []string{"replay status"}, "/replays/{id}", ""},
	{"list_replay_items", []string{"replay items"}, "/replays/{id}", ""},
	{"run_replay", []string{"replay run"}, "/replays/{id}", ""},
	{"compare_run", []string{"replay plan"}, "/runs", ""},
	{"cancel_replay", []string{"replay cancel"}, "/replays/{id}", ""},
}

var setupPlaces = []Place{
	{"list_sources", []string{"sources list"}, "/sources", ""},
	{"show_source", []string{"sources show"}, "/sources/{name}", ""},
	{"reconcile_source", []string{"reconcile"}, "", "a run may take minutes; the page of a source shows its last one, and a schedule makes it"},
	{"test_source", []string{"sources test"}, "/sources/{name}", ""},
	only("it signs on this machine and sends over the network, as the sender would; `oncegate sources test` has a server do it", "send"),
	{"show_definition", nil, "/sources/{name}", "`oncegate sources create` and the other commands that change a source wait until it is served"},
	{"create_source", []string{"sources create"}, "", "a definition contains secrets, which a browser would keep in the history of its forms"},
	{"update_source", []string{"sources update"}, "", "a change may contain secrets, which a browser would keep in the history of its forms"},
	{"disable_source", []string{"sources disable"}, "/sources/{name}", ""},
	{"enable_source", []string{"sources enable"}, "/sources/{name}", ""},
	{"pause_source", []string{"sources pause"}, "/sources/{name}", ""},
	{"resume_source", []string{"sources resume"}, "/sources/{name}", ""},
	{"list_routes", []string{"routes list"}, "/sources", ""},
	{"pause_route", []string{"routes pause"}, "/routes/{source}/{route}", ""},
	{"resume_route", []string{"routes resume"}, "/routes/{source}/{route}", ""},
	{"list_targets", []string{"targets list"}, "/targets", ""},
	{"show_target", []string{"targets show"}, "/targets/{name}", ""},
	{"test_target", []string{"targets test"}, "/targets/{name}", ""},
	{"pause_target", []string{"targets pause"}, "/targets/{name}", ""},
	{"resume_target", []string{"targets resume"}, "/targets/{name}", ""},
	{"discard_route", []string{"routes discard"}, "/routes", ""},
	{"move_route", []string{"routes move"}, "/routes", ""},
	{"list_providers", []string{"providers list"}, "/providers", ""},
	{"show_provider", []string{"providers show"}, "/providers/{name}", ""},
	only("it reads a captured request from a file of this machine; what a server refused is diagnosed on the page of its refusal", "providers inspect", "providers verify"),
	only("it writes a file on this machine", "providers draft", "providers sign"),
	{"show_operation", nil, "/operations", "`oncegate call` with the same key returns the outcome of the call"},
	only("it calls an operation at the public listener with the secret of its caller, which no token of the API is", "call"),
	{"list_sessions", []string{"sessions list"}, "/operations", ""},
	{"revoke_session", []string{"sessions revoke"}, "/operations", ""},
	{"revoke_sessions", []string{"sessions revoke"}, "/operations", ""},
	{"list_outbox", []string{"outbox list"}, "/operations", ""},
	{"read_outbox_payload", []string{"outbox show"}, "/outbox/{ref}", ""},
	{"discard_outbox", []string{"outbox discard"}, "/outbox/{ref}", ""},
	{"list_suppressions", []string{"suppressions list"}, "/suppressions", ""},
	{"check_suppression", []string{"suppressions check"}, "/suppressions", ""},
	{"add_suppression", []string{"suppressions add"}, "/suppressions", ""},
	{"import_suppressions", []string{"suppressions import"}, "/suppressions", ""},
	{"remove_suppression", []string{"suppressions remove"}, "/suppressions", ""},
}

var accessPlaces = []Place{
	{"list_retention", []string{"prune"}, "/retention", ""},
	{"show_pruning", nil, "/retention", "`/metrics` has the same figures, and over time"},
	{"run_prune", []string{"prune"}, "/retention/prune", ""},
	{"list_prune_runs", nil, "/retention", "`oncegate prune` says what it removes; of earlier passes a script asks the API"},
	{"list_notifications", []string{"notifications list"}, "/notifications", ""},
	{"test_notifications", []string{"notifications test"}, "/notifications", ""},
	{"list_nodes", []string{"nodes list"}, "/nodes", ""},
	{"reload_configuration", []string{"reload"}, "", "it is part of a deployment, which follows it with the next process; the page of the nodes shows the configuration of each process"},
	{"list_keys", []string{"keys list"}, "/nodes", ""},
	{"list_audit", []string{"audit list"}, "/audit", ""},
	{"list_tokens", []string{"tokens list"}, "/access", ""},
	{"create_token", []string{"tokens create"}, "/access", ""},
	{"revoke_token", []string{"tokens revoke"}, "/access", ""},
	{"list_logins", []string{"logins list"}, "/access", ""},
	{"create_login_link", []string{"logins link"}, "/access", ""},
	{"revoke_login", []string{"logins revoke"}, "/access", ""},
}

var machinePlaces = []Place{
	only("it is the process that answers the others", "serve", "dev"),
	only("it starts and kills processes on the machine that runs it", "drill"),
	only("it examines from the machine where it runs: its clock, its configuration and the way to targets", "doctor"),
	only("health checks ask `/readyz`; the page of the nodes shows the same", "ready"),
	only("it prints this program's version; the page of the nodes shows the version of each process", "version"),
	only("it writes a configuration file on this machine", "init"),
	only("it reads the documentation that is in the binary", "explain"),
	only("it reads the configuration file of this machine; the page of a source shows what the server has of it", "config check", "config print"),
	only("it describes the file, not what is in it", "config schema"),
	only("it changes or reads the schema, as the role that owns the tables, before a server can start", "migrate up", "migrate down", "migrate status"),
	only("the person who restored the database declares the copy with its connection string; a server cannot answer for a database that it does not recognise", "history show", "history declare"),
	only("it connects to two databases, and runs until both agree", "sources move"),
	only("the keyring is a file of this machine, and its keys never pass a network", "keys rotate", "keys activate", "keys remove", "keys reseal"),
}
