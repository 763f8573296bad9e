package transport

import (
	"fmt"
	"strings"
)

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

// The subjects of a cluster. Each role publishes on some and subscribes to others (permissions.go), so that a NATS server can tell the
// roles apart:
//
//	moe.<cluster>.work.<worker>             coordinator → worker
//	moe.<cluster>.ctl.<worker>              coordinator → worker
//	moe.<cluster>.coordinator               coordinator → all workers
//	moe.<cluster>.beat.<worker>             worker → coordinator
//	moe.<cluster>.reply.<inbox>.<worker>    worker → the coordinator whose inbox that is
//	moe.<cluster>.generate.>                client → coordinator: requests, signs of life
//	moe.<cluster>.admin.>                   admin → coordinator
//	moe.<cluster>.inbox.<identity>.<random> answers to whoever holds the identity (its public nkey)
//
// checkName says what is wrong with a name, and what it names.
func checkName(what, name string) error {
	if !ValidName(name) {
		return fmt.Errorf("%s %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", what, name)
	}
	return nil
}

func workSubject(cluster, worker string) string    { return clusterSubject(cluster, "work", worker) }
func controlSubject(cluster, worker string) string { return clusterSubject(cluster, "ctl", worker) }
func beatSubject(cluster, worker string) string    { return clusterSubject(cluster, "beat", worker) }
func coordinatorSubject(cluster string) string     { return clusterSubject(cluster, "coordinator") }

// replyInbox is the prefix of the subjects, one a worker, in which a coordinator gets workers' answers.
func replyInbox(cluster, random string) string { return clusterSubject(cluster, "reply", random) }

func replySubject(inbox, worker string) string { return inbox + "." + worker }

// generateSubject is where generate requests go.
func generateSubject(cluster string) string { return clusterSubject(cluster, "generate", "request") }

// generateStreams is the prefix of the subjects, one an answer, that clients send signs of life and cancels to.
func generateStreams(cluster, random string) string {
	return clusterSubject(cluster, "generate", "stream", random)
}

// adminSubject is where a command of an operator goes.
func adminSubject(cluster, command string) string { return clusterSubject(cluster, "admin", command) }

// inboxPrefix is the prefix of the subjects in which the holder of an identity gets answers.
func inboxPrefix(cluster, identity string) string { return clusterSubject(cluster, "inbox", identity) }

// answerable says whether a request may ask for its answer on a subject: an inbox. What a coordinator may publish on is not for clients to
// choose, or they could have it send to its workers.
func answerable(cluster, subject string) bool {
	return strings.HasPrefix(subject, clusterSubject(cluster, "inbox")+".") || strings.HasPrefix(subject, "_INBOX.")
}

func clusterSubject(cluster string, tokens ...string) string {
	return "moe." + cluster + "." + strings.Join(tokens, ".")
}

// lastToken is what follows the last dot of a subject.
func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
