package config

func consoleReference() []Section {
	return []Section{
		{Name: "console", Title: "Console", Prefix: "console.", Text: "How people reach the console and log in to it. See [The console](../guides/console.md) and [Who may do what](../guides/access.md).", Keys: []Key{
			{"enabled", "`true`", "`false` serves no console on `listen.admin`. Without a login it shows nothing."},
			{"redact", "none", "Members of payloads that are masked until somebody with the scope `read-payload` reveals them: names, wherever they stand, or dotted paths in which `*` stands for one step. Each source's `redact` holds as well, and so do names that say that they are secret."},
			{"url", "a loopback address", "The address at which browsers reach the private listener, such as `https://oncegate.example`. A proxy that ends TLS needs it, and so does `oidc`."},
			{"oidc", "none", "The OpenID Connect provider at which people log in."},
		}},
		{Name: "oidc", Title: "OpenID Connect", Prefix: "console.oidc.", Text: "See [Log in with OpenID Connect](../guides/access.md#log-in-with-openid-connect).", Keys: []Key{
			{"issuer", "required", "The provider's address, exactly as its identity tokens name it."},
			{"client_id", "required", "What the provider knows this installation by."},
			{"client_secret", "none", "A [secret](#secrets). A public client has none: each login is protected by PKCE as well."},
			{"scopes", "`[email]`", "The OAuth scopes that are asked for beside `openid`: those that have the provider put `claim` into its identity tokens."},
			{"claim", "`groups`", "The member of the identity token that gives people their role: a text or a list of texts. Dots lead into nested members, such as `realm_access.roles`."},
			{"roles", "required", "What people may do, by the value of the claim. The first value in the file that a person has counts. Whoever has none is not logged in."},
			{"allow", "none", "Private networks in which the provider may be. An issuer that is written as an address is allowed without it."},
		}},
		{Name: "role", Title: "Roles", Prefix: "console.oidc.roles.<value>.", Keys: []Key{
			{"scopes", "required", "`read-metadata`, `read-payload`, `operate` or `admin`: see [Scopes](../guides/access.md#scopes)."},
			{"tenant", "everybody's", "The only tenant whose things these people reach."},
		}},
	}
}
