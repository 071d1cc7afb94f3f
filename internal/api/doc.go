// Package api serves the operations of package control over HTTP at /api/v1, and asks them of a server: [New] makes the
// handler, [Client] is the caller. Both read the paths, queries and bodies out of the declarations of the operations.
package api

// Prefix is where the API is served.
const Prefix = "/api/v1"
