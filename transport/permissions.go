package transport

import "fmt"

// Role is what the holder of a key may do in a cluster.
type Role string

// The roles.
const (
	RoleCoordinator Role = "coordinator"
	RoleWorker      Role = "worker"
	RoleClient      Role = "client" // asks for text
	RoleAdmin       Role = "admin"  // asks for text, and for the cluster's state and changes of it
)

// Permissions are the only subjects that a key may publish on and subscribe to.
type Permissions struct{ Publish, Subscribe []string }

// discovery is the subjects in which micro services answer who and how they are.
const discovery = "$SRV.>"

// PermissionsOf gives what a role needs in a cluster and no more. identity is the key's public nkey (Permissions name it, since the holder's
// inboxes do, so that no other key can read them). workers are the ids that a worker's key may use: it receives only their work and answers only in
// their names, because the last token of a coordinator's reply subjects is the worker's id.
func PermissionsOf(role Role, cluster, identity string, workers ...string) (Permissions, error) {
	if !ValidName(cluster) || !ValidName(identity) {
		return Permissions{}, fmt.Errorf("cluster %q, key %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", cluster, identity)
	}
	if (role == RoleWorker) != (len(workers) > 0) {
		return Permissions{}, fmt.Errorf("role %s with %d worker ids: a worker's key names the ids that it may use, others none", role, len(workers))
	}
	p := Permissions{Subscribe: []string{inboxPrefix(cluster, identity) + ".>"}}
	switch role {
	case RoleCoordinator:
		p.Publish = append(p.Publish, workSubject(cluster, "*"), controlSubject(cluster, "*"), coordinatorSubject(cluster), inboxPrefix(cluster, ">"))
		p.Subscribe = append(p.Subscribe, beatSubject(cluster, "*"), replySubject(replyInbox(cluster, "*"), "*"),
			clusterSubject(cluster, "generate", ">"), adminSubject(cluster, ">"), discovery)
		p.Publish = append(append(p.Publish, objectReads(cluster)...), objectWrites(cluster)...)
	case RoleWorker:
		p.Subscribe = append(p.Subscribe, coordinatorSubject(cluster))
		p.Publish = append(p.Publish, objectReads(cluster)...)
		for _, w := range workers {
			if err := checkName("worker id", w); err != nil {
				return Permissions{}, err
			}
			p.Publish = append(p.Publish, beatSubject(cluster, w), replySubject(replyInbox(cluster, "*"), w))
			p.Subscribe = append(p.Subscribe, workSubject(cluster, w), controlSubject(cluster, w))
		}
	case RoleAdmin:
		p.Publish = append(p.Publish, adminSubject(cluster, ">"), clusterSubject(cluster, "generate", ">"), discovery)
	case RoleClient:
		p.Publish = append(p.Publish, clusterSubject(cluster, "generate", ">"), discovery)
	default:
		return Permissions{}, fmt.Errorf("role %q: valid are %s, %s, %s and %s", role, RoleCoordinator, RoleWorker, RoleClient, RoleAdmin)
	}
	return p, nil
}

// objectReads are the subjects of JetStream's API that reading the cluster's object store needs (worker --fetch).
func objectReads(cluster string) []string {
	stream := objectStream(cluster)
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.DIRECT.GET." + stream + ".>",
		"$JS.API.CONSUMER.CREATE." + stream + ".>",
		"$JS.API.CONSUMER.DELETE." + stream + ".*",
		"$JS.FC." + stream + ".>", // flow control
	}
}

// objectWrites are what filling it needs, besides (coordinator --offer-model).
func objectWrites(cluster string) []string {
	stream := objectStream(cluster)
	return []string{"$JS.API.STREAM.CREATE." + stream, "$JS.API.STREAM.PURGE." + stream, "$O." + objectBucket(cluster) + ".>"}
}
