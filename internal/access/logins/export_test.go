package logins

// FindLogin is the statement of every request of the console, and UseLink that of a link.
const (
	FindLogin = findLogin
	UseLink   = useLink
)
