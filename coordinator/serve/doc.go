// Package serve puts a coordinator before its users: the generate service on NATS, and metrics and health over HTTP.
package serve
