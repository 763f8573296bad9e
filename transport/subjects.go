package transport

import "strings"

// DefaultCluster is the name in subjects when none is given.
const DefaultCluster = "default"

// ValidName says whether a worker id or cluster name matches [A-Za-z0-9_-]+ and is at most 64 long.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func workSubject(cluster, worker string) string    { return "moe." + cluster + ".work." + worker }
func controlSubject(cluster, worker string) string { return "moe." + cluster + ".ctl." + worker }
func beatSubject(cluster, worker string) string    { return "moe." + cluster + ".beat." + worker }
func coordinatorSubject(cluster string) string     { return "moe." + cluster + ".coordinator" }
func generateSubject(cluster string) string        { return "moe." + cluster + ".generate" }

// lastToken is what follows the last dot of a subject.
func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
