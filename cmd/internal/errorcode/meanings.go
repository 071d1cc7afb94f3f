package errorcode

// The codes, in the order of the table.
const (
	Usage               Code = "usage"
	UnknownCommand      Code = "unknown_command"
	UnknownProvider     Code = "unknown_provider"
	UnknownSource       Code = "unknown_source"
	UnknownWord         Code = "unknown_word"
	ReasonMissing       Code = "reason_missing"
	ConfirmationMissing Code = "confirmation_missing"
	SecretMissing       Code = "secret_missing"
	TokenMissing        Code = "token_missing"
	File                Code = "unusable_file"
	Config              Code = "invalid_configuration"
	Names               Code = "names_differ"
	DatabaseMissing     Code = "database_missing"
	DatabaseSetting     Code = "database_setting"
	SharedSessions      Code = "shared_sessions"
	DatabaseAddress     Code = "invalid_database_address"
	TablesMissing       Code = "tables_missing"
	SchemaVersion       Code = "schema_version"
	KeyMissing          Code = "unknown_key"
	CallRefused         Code = "call_refused"
	NotConfirmed        Code = "not_confirmed"
	WrongState          Code = "wrong_state"
	CheckFailed         Code = "check_failed"
	DeliveryRefused     Code = "delivery_refused"
	CallFailed          Code = "call_failed"
	NotOncegate         Code = "not_oncegate"
	NoAnswer            Code = "no_answer"
	MoreSteps           Code = "more_steps"
	NotReady            Code = "not_ready"
	RestartNeeded       Code = "restart_needed"
	AddressInUse        Code = "address_in_use"
	DatabaseReadOnly    Code = "database_read_only"
	DatabaseForbidden   Code = "database_forbidden"
	DatabaseRefused     Code = "database_refused"
	Failed              Code = "failed"
	CallUnknown         Code = "call_indeterminate"
	ServerUnreachable   Code = "server_unreachable"
	DatabaseUnreachable Code = "database_unreachable"
	DatabaseStandby     Code = "database_standby"
	LockTimeout         Code = "lock_timeout"
	NotAcknowledged     Code = "not_acknowledged"
	Unfinished          Code = "unfinished"
)

var meanings = [...]Meaning{
	{Usage, 2, "the command line is wrong", "Correct what the message names. `--help` after the command shows its arguments and flags. Nothing was changed."},
	{UnknownCommand, 2, "there is no such command", "Correct the command. `oncegate --help` lists the commands."},
	{UnknownProvider, 2, "there is no such provider or fixture", "Correct the name. `oncegate providers list` and `oncegate send --list` show those that exist. A provider of your own needs `--config`."},
	{UnknownSource, 2, "the configuration has no such source", "Correct the name, or name the right file with `--config`."},
	{UnknownWord, 2, "the documentation does not explain the word", "Correct the word, or search the documentation at `/docs` of the private listener."},
	{ReasonMissing, 2, "a decision needs a reason", "Add `--reason` with a sentence for the audit. Nothing was changed."},
	{ConfirmationMissing, 2, "the command asks for a confirmation, and there is no terminal", "Add what the message names, usually `--yes`, after you have looked at what would change. Nothing was changed."},
	{SecretMissing, 2, "the secret that the command needs is missing", "Set the environment variable or name the file that the message mentions."},
	{TokenMissing, 2, "a request to a server needs a token", "Set `ONCEGATE_TOKEN` or `ONCEGATE_TOKEN_FILE`. `oncegate tokens create` makes a token."},
	{File, 2, "a file cannot be read or written, or its content has another form", "Check the path, the permissions and the line that the message names."},
	{Config, 2, "the configuration is not valid", "Correct each line that the message names. `oncegate config check` checks it without a start."},
	{Names, 2, "the configuration does not fit what the database knows about sources, routes and keys", "Say with `was` what was renamed, or restore what it was. Nothing was changed."},
	{DatabaseMissing, 2, "no database is named", "Set `DATABASE_URL`, or name the configuration with `--config`."},
	{DatabaseSetting, 2, "a session of the database does not have a setting that it must have", "Correct the setting where the message says that it comes from: the role, the database or the pooler."},
	{SharedSessions, 2, "a pooler shares sessions between its clients", "Connect to PostgreSQL itself, or to a pool in session mode."},
	{DatabaseAddress, 2, "the connection string of the database, or the name of the schema, is not valid", "Correct `DATABASE_URL`, or `ONCEGATE_SCHEMA`, which is a name of a-z, 0-9 and _ that begins with a letter."},
	{TablesMissing, 2, "the tables are missing in this schema", "Run `oncegate migrate up`, or correct `DATABASE_URL` and `ONCEGATE_SCHEMA`."},
	{SchemaVersion, 2, "the tables have another version than this program needs", "Run `oncegate migrate up`, or use the version of Oncegate that the message names. `oncegate migrate status` shows both."},
	{KeyMissing, 2, "the keyring is not configured, or does not contain the key", "Set `seal.keyring`, or use a key that `oncegate keys list` shows."},
	{CallRefused, 2, "the server refused the call of an operation", "Correct what the message names. If the answer has a code of its own, the error has that one instead."},
	{NotConfirmed, 1, "you did not confirm", "Run the command again if you meant it. Nothing was changed."},
	{WrongState, 1, "the state of the thing does not permit this", "Do what the message says first. Nothing was changed."},
	{CheckFailed, 1, "a check found a fault, or what it compares differs", "Read the output: it names each fault."},
	{DeliveryRefused, 1, "the server refused a delivery", "`oncegate refusals list` says why."},
	{CallFailed, 1, "the operation failed, as a whole or in part", "Do what the message says. The same key answers with the same result."},
	{NotOncegate, 1, "something else than Oncegate answered", "Check the address: it must be the private listener of an Oncegate."},
	{NoAnswer, 1, "the server could not be asked", "Check the address, the scheme and the certificate, as the message says: trying again cannot help."},
	{MoreSteps, 1, "a comparison has more steps than one answer holds", "Compare the next steps as the message says."},
	{NotReady, 1, "the process is not ready", "Repair the check that the message names."},
	{RestartNeeded, 1, "a setting cannot change while the process runs", "Restart the process, or restore the setting."},
	{AddressInUse, 1, "another process listens on the address", "Stop that process, or set `PORT` or `ONCEGATE_ADMIN` to another address."},
	{DatabaseReadOnly, 1, "the database takes no writes", "Point `DATABASE_URL` at the primary."},
	{DatabaseForbidden, 1, "the role may not do this in the database", "Grant the role what it lacks, or use the role that made the tables."},
	{DatabaseRefused, 1, "the database refuses the connection", "Correct the user, the password, the database or the TLS mode in `DATABASE_URL`, as the message says."},
	{Failed, 1, "something failed that has no other code", "Read the message and the log."},
	{CallUnknown, 3, "the outcome of the operation is unknown", "Do not call under another key. Ask again later, when a person or a probe has found out."},
	{ServerUnreachable, 75, "the server does not answer", "Check the address and that `oncegate serve` runs, then repeat the command."},
	{DatabaseUnreachable, 75, "the database cannot be reached", "Check `DATABASE_URL` and that PostgreSQL runs, then repeat the command."},
	{DatabaseStandby, 75, "the database is a standby", "Repeat the command after the failover, or point `DATABASE_URL` at the primary."},
	{LockTimeout, 75, "another session keeps a lock", "Repeat the command. If it fails again, end the session that the message names."},
	{NotAcknowledged, 75, "a delivery got no acknowledgement", "Check that the server runs, and repeat the command."},
	{Unfinished, 75, "the work is not finished", "Repeat the command: it continues."},
}
