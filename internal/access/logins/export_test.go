package logins

// FindLogin is the statement that every console request runs, and UseLink the statement that uses a
// link.
const (
	FindLogin = findLogin
	UseLink   = useLink
)
