// Package membership knows the cluster's workers and decides on their placement: it admits them (handshake), places experts on them, follows
// their loading, notices when one is lost, restarted, back, or wants to leave, and moves experts accordingly. It also says each second that
// this coordinator lives and which placement is active. It must not know how work is sent, nor what a model is beyond the number and
// size of its expert parts.
//
// The rules are a pure state machine: beats and ticks in, actions out (table.go: workers' lives; plans.go: plans). Members drives it over
// transport.
//
// A worker's life here: its first beat registers it. One of another build, model, format or layout is refused, both values named.
// A second process with the id of a worker that beats is refused; if the first one is silent instead, the second takes its place.
// A worker that serves another coordinator of this or a higher term is left alone until it no longer does. Once placed, a worker is assigned
// its experts, and again whenever it comes back without them. One that has not been heard for 3 s gets no work.
//
// There is one active plan, which work is sent by, and at most one that is prepared. A plan is begun
//   - for the start, when enough workers are there;
//   - without a worker that leaves, has failed, or is lost: after 2 s if nobody else has some of its experts, at once if somebody waits for
//     them or its process has ended, after 30 s if all of them have replicas. While a worker may still come back no other plan is begun;
//   - when Rebalance asks for it;
//   - with workers that have joined and stayed for 2 s; those that were lost before have to stay longer each time.
//
// The plan is computed, its workers are assigned their parts of it while they go on serving the active one, and when all of them serve it
// Options.Commit is asked, and then it is active: the coordinator's beat says so, and workers may give back what only earlier plans gave them.
// It is given up if one of its workers is lost for 2 s, fails or leaves, or when all workers of the active plan are back before it
// is ready. Epochs only grow, whatever becomes of their plans. A worker that leaves is told that it may when neither plan names it.
package membership
