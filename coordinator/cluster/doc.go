// Package cluster lets one or several coordinators agree on the little that must survive any of them: which model is served, which workers
// are admitted, the placement plan, drain marks, and the policy settings. It says who leads, and in which term. It owns the replicated
// state, its log on disk (hashicorp/raft over mutual TLS) and the certificates for it. It must not know how workers are followed or how a
// model runs. Statistics never come here: what changes each second has no place in a log.
//
// The rules are a pure state machine: State.Apply takes an entry of the log and gives the next state (state.go, command.go). Node drives it
// with raft. Commands may be repeated: the second time changes nothing. That matters because a leader that loses its lead while a command is
// under way can't know whether it was committed (ErrResultUnknown): it, or its successor, just sends it again.
//
// Terms: raft elects at most one leader a term. A leader's first entry, TakeLead, carries its term into the state; once it is applied, all
// that former leaders committed is, too, and Node says that it leads. Workers refuse a lower term than they have seen, so a former leader
// that doesn't know yet can't use them; and a command that was made for one term is refused in another.
package cluster
