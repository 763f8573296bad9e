// Package testbed runs the built moepool program on hosts that are network namespaces: it starts NATS servers, coordinators and workers there,
// cuts links, delays, resets and stalls connections, kills processes, and compares tokens with an undisturbed run on one host. It knows the
// program by its command line, its JSON and its metrics only.
//
// .ci/testbed makes the hosts and runs the tests in the switch's namespace, from which every host is reached.
package testbed
