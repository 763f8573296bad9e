// Package nats owns the NATS configuration that is recommended for moepool: nats.conf, and the files that differ from site to site,
// which Generate makes: keys, permissions, certificates, routes. It knows roles and subjects from package transport, and must not know
// what runs over them.
package nats
