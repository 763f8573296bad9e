// Package transport owns the wire: the NATS connection (embedded server or external), subjects, messages and their strict
// decoding, chunking to the server's payload limit, and deadlines of silence. It must not know what a worker computes.
package transport
