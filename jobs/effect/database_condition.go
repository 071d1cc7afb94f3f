package effect

import (
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/pgtext"
)

// Conditions returns the names that PostgreSQL gives the SQLSTATEs that an effect meets (appendix A
// of its manual). A test checks each of them against the server.
func Conditions() map[string]string {
	return map[string]string{
		"08000": "connection_exception",
		"08003": "connection_does_not_exist",
		"08006": "connection_failure",
		"0A000": "feature_not_supported",
		"22000": "data_exception",
		"22001": "string_data_right_truncation",
		"22003": "numeric_value_out_of_range",
		"22004": "null_value_not_allowed",
		"22007": "invalid_datetime_format",
		"22008": "datetime_field_overflow",
		"22012": "division_by_zero",
		"22021": "character_not_in_repertoire",
		"22023": "invalid_parameter_value",
		"22P02": "invalid_text_representation",
		"22P05": "untranslatable_character",
		"23000": "integrity_constraint_violation",
		"23001": "restrict_violation",
		"23502": "not_null_violation",
		"23503": "foreign_key_violation",
		"23505": "unique_violation",
		"23514": "check_violation",
		"23P01": "exclusion_violation",
		"25006": "read_only_sql_transaction",
		"25P02": "in_failed_sql_transaction",
		"25P03": "idle_in_transaction_session_timeout",
		"28000": "invalid_authorization_specification",
		"40001": "serialization_failure",
		"40P01": "deadlock_detected",
		"42501": "insufficient_privilege",
		"42601": "syntax_error",
		"42702": "ambiguous_column",
		"42703": "undefined_column",
		"42704": "undefined_object",
		"42804": "datatype_mismatch",
		"42883": "undefined_function",
		"42P01": "undefined_table",
		"42P18": "indeterminate_datatype",
		"53100": "disk_full",
		"53200": "out_of_memory",
		"53300": "too_many_connections",
		"54000": "program_limit_exceeded",
		"54001": "statement_too_complex",
		"55000": "object_not_in_prerequisite_state",
		"55006": "object_in_use",
		"55P03": "lock_not_available",
		"57014": "query_canceled",
		"57P01": "admin_shutdown",
		"57P02": "crash_shutdown",
		"57P03": "cannot_connect_now",
		"P0001": "raise_exception",
		"P0002": "no_data_found",
		"P0003": "too_many_rows",
		"P0004": "assert_failure",
		"XX000": "internal_error",
		"XX001": "data_corrupted",
		"XX002": "index_corrupted",
	}
}

// condition returns the name of a SQLSTATE, or the SQLSTATE itself if it is not in [Conditions].
func condition(code string) string {
	if name, ok := Conditions()[code]; ok {
		return name
	}
	return pgtext.Clean(code, 5)
}

var (
	quotedValue = regexp.MustCompile(`(?s)".*"`)
	quotedBytes = regexp.MustCompile(`: 0x.*`)
)

// serverSaid returns what the server said about a failure: the condition and its message, without
// DETAIL and HINT, because those quote rows. The messages of class 22 quote the value that could
// not be used; it is left out. The text that a function raises is left out too, because its author
// may have put content into it.
func serverSaid(err *pgconn.PgError) string {
	if err.Routine == "exec_stmt_raise" {
		return condition(err.Code) + ": raised by a function, whose words are not kept"
	}
	message := err.Message
	if strings.HasPrefix(err.Code, "22") {
		message = quotedBytes.ReplaceAllString(quotedValue.ReplaceAllString(message, `"..."`), "")
	}
	return pgtext.Clean(condition(err.Code)+": "+message, MaxExcerpt)
}
