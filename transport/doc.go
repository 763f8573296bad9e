// Package transport owns the wire: the NATS connection (embedded server or external), subjects, messages and their strict
// decoding, chunking to the server's payload limit, and signs of life. It must not know what a worker computes.
//
// A frame is a msgpack array [version, kind, message]; a message is a positional array whose fields are listed once, in its
// fields method, for both directions. Tensors are raw little-endian bin fields whose length must be exactly what the message's
// sizes say; every size is checked against what really arrived before memory is taken. A frame that can't be decoded costs an
// error reply and a counter.
//
// A frame above the server's payload limit travels in parts (parts.go). Subjects (subjects.go) are made so that a NATS server's
// permissions can tell coordinator, workers, clients and operators apart (permissions.go); a Requester receives every answer in one inbox.
package transport
