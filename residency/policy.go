package residency

import (
	"fmt"
	"strings"
)

// Policy decides which parts leave a ledger; Parse knows all of them.
type Policy interface {
	fmt.Stringer
	// order is the state of one ledger.
	order(layers, parts int) order
}

// order is what a policy knows of one ledger: the evictable parts in the order in which they should leave. Parts are slots, place of the layer · parts + id. All of it is a
// function of the calls.
type order interface {
	// visit tells that a request of a layer begins, for the parts ids; history has it already.
	visit(place int, ids []uint32, history *frequency)
	// add makes a resident part evictable: wasUsed, after a request that used it; else it comes in unasked and is worth less than what is there.
	add(slot int32, wasUsed bool)
	// remove takes an evictable part out of the order, because it leaves or is used.
	remove(slot int32)
	// coldest is the part that should leave first, -1 if there is none.
	coldest() int32
	// cold says whether an evictable part is so cold that a part that a hint names may take its place.
	cold(victim, hinted int32) bool
	clone() order
}

// policies are all of them, by name.
var policies = map[string]Policy{"lru": lru{}}

// Default is the policy that measured best (docs/residency.md).
var Default Policy = lru{}

// Names are the names of the policies, the default first.
var Names = []string{"lru"}

// Parse gives the policy of a name.
func Parse(name string) (Policy, error) {
	if p, ok := policies[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("no eviction policy is named %q, valid are %s", name, strings.Join(Names, ", "))
}
