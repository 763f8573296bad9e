//go:build linux && !race

package main

const underRace = false
