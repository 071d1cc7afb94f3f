package lists

import "fmt"

// Check compares the ledgers. It returns a line for each finding.
func Check(v *Evidence) []string {
	var found []string
	for name, taken := range map[string]map[Message]int{"undisturbed": v.Undisturbed, "killed": v.Killed, "repeated": v.Repeated} {
		byRecipient := map[string]int{}
		for m, n := range taken {
			byRecipient[m.Recipient] += n
		}
		missing := 0
		for _, recipient := range v.Recipients {
			switch n := byRecipient[recipient]; {
			case n > 1:
				found = append(found, fmt.Sprintf("%s: %s was mailed %d times", name, recipient, n))
			case n == 0:
				missing++
			}
			delete(byRecipient, recipient)
		}
		switch {
		case name == "undisturbed" && missing > 0:
			found = append(found, fmt.Sprintf("%s: %d recipients were not mailed", name, missing))
		case name == "killed" && missing > v.Indeterminate:
			found = append(found, fmt.Sprintf("%s: %d recipients were not mailed, and %d messages wait for a person", name, missing, v.Indeterminate))
		case name == "repeated" && missing < len(v.Recipients):
			found = append(found, fmt.Sprintf("%s: %d recipients were mailed again", name, len(v.Recipients)-missing))
		case name == "repeated" && byRecipient[v.Added] != 1:
			found = append(found, fmt.Sprintf("%s: the added recipient was mailed %d times", name, byRecipient[v.Added]))
		}
		if name == "repeated" {
			delete(byRecipient, v.Added)
		}
		for recipient := range byRecipient {
			found = append(found, fmt.Sprintf("%s: %s is on no list", name, recipient))
		}
	}
	return found
}
