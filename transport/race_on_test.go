//go:build race

package transport

const underRace = true
