// Package propertyseed fixes the seed of the property tests (pgregory.net/rapid) of the test binary that imports it, so that a run of
// the tests is repeatable and unrelated work is never stopped by a new random case. -rapid.seed=N gives another seed, 0 a
// random one. It must know nothing of the project.
package propertyseed

import (
	"flag"

	_ "pgregory.net/rapid" // defines the flag in its init, which so runs before ours
)

func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
