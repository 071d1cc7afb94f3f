package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// withoutTLS matches the messages with which servers and poolers refuse a connection without TLS:
// the messages of PostgreSQL's pg_hba.conf, of PgBouncer's client_tls_sslmode, and of hosted
// databases.
var withoutTLS = regexp.MustCompile(`(?i)no encryption|SSL off|(SSL|TLS)( connection)?( is)? required|SSL/TLS required`)

// unsupported matches PgBouncer's message about an unsupported parameter.
var unsupported = regexp.MustCompile(`unsupported startup parameter(?: in options)?: (\S+)`)

// refusedConnection describes why no connection was made and what to do about it. With
// sslmode=prefer the driver tries TLS first and then no TLS. The description is about the last
// attempt, and also contains the TLS error. address names the setting with the connection string,
// such as DATABASE_URL.
func refusedConnection(connect *pgconn.ConnectError, address string) string {
	var last, tls string
	var refusals []*pgconn.PgError
	for _, attempt := range attempts(connect) {
		last = oneLine(attempt.Error())
		if strings.Contains(last, "tls error:") {
			tls = last[strings.Index(last, "tls error:")+len("tls error: "):]
		}
		if refusal, ok := errors.AsType[*pgconn.PgError](attempt); ok {
			refusals = append(refusals, refusal)
		}
	}
	said := func(words string) bool {
		return slices.ContainsFunc(refusals, func(r *pgconn.PgError) bool { return strings.Contains(r.Message, words) })
	}
	for _, refusal := range slices.Backward(refusals) {
		if found := unsupported.FindStringSubmatch(refusal.Message); found != nil {
			return fmt.Sprintf("the pooler in front of the database refuses the startup parameter %s: take it out of %s, or name it in the pooler's ignore_startup_parameters", found[1], address)
		}
		// A server that refuses the host completely also refuses it with TLS.
		if withoutTLS.MatchString(refusal.Message) && !said(", SSL encryption") {
			text := "the database insists on TLS: put sslmode=verify-full (or sslmode=require, which does not check whom it speaks to) into " + address
			if tls != "" {
				text += " (TLS was tried: " + tls + ")"
			}
			return text
		}
		if refusal.Code == "3D000" {
			return "the database named in " + address + " does not exist on the server; create it"
		}
		if refusal.Code == "28P01" || refusal.Code == "28000" && !said("pg_hba.conf") {
			return "the database refuses the user or password of " + address
		}
	}
	switch {
	case last == "":
		last = "cannot connect"
	case tls != "" && !strings.Contains(last, "tls error:"):
		last += "; with TLS: " + tls
	}
	return fmt.Sprintf("the database cannot be reached (%s); check %s and that PostgreSQL runs, then try again", last, address)
}

// attempts returns the errors of the driver's attempts, in order.
func attempts(connect *pgconn.ConnectError) []error {
	err := errors.Unwrap(connect)
	// The driver joins the errors of its attempts, each with its own address.
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
