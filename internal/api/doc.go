// Package api serves the operations of package control over HTTP at /api/v1, and calls them at a server. [New] makes
// the handler, and [Client] is the caller. Both take the paths, queries and bodies from the declarations of the
// operations.
package api

// Prefix is the path below which the API is served.
const Prefix = "/api/v1"
