// Package membership knows the cluster's workers: it admits them (handshake), places experts on them, follows their loading, and
// notices when one is lost, restarted, or back. It also says each second that this coordinator lives. It must not know how work
// is sent, nor what a model is beyond the number and size of its expert parts.
//
// The rules are a pure state machine (table.go): beats and seconds in, actions out. Members drives it over transport.
//
// A worker's life here: its first beat registers it. One of another build, model, format or layout is refused, both values named.
// A second process with the id of a worker that beats is refused; if the first one is silent instead, the second takes its place.
// A worker that serves another coordinator is left alone until it no longer does. Once placed, a worker is assigned its experts,
// and again whenever it comes back without them.
package membership
