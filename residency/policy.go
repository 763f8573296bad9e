package residency

import (
	"fmt"
	"strings"
)

// Policy decides which parts leave a ledger; Parse knows all of them.
type Policy interface {
	fmt.Stringer
	// order is the state of one ledger, whose history it may read.
	order(layers, parts int, history *frequency) order
}

// order is what a policy knows of one ledger: the evictable parts in the order in which they should leave. Parts are slots, place of the layer · parts + id. All of it is a
// function of the calls.
type order interface {
	// visit tells that a request of a layer begins, for the parts ids; the history has it already.
	visit(place int, ids []uint32)
	// add makes a resident part evictable: wasUsed, after a request that used it; else it came in unasked.
	add(slot int32, wasUsed bool)
	// remove takes an evictable part out of the order, because it leaves or is used.
	remove(slot int32)
	// coldest is the part that should leave first, -1 if there is none.
	coldest() int32
	// cold says whether an evictable part is so cold that a part that a hint names may take its place.
	cold(slot int32) bool
	// seeded tells that the history has got a profile.
	seeded()
	// clone is the same state for a clone of the ledger, with the clone's history.
	clone(history *frequency) order
}

// Default is the policy that measured best (docs/residency.md).
var Default Policy = nextUse{}

// Names are the names of the policies, the default first.
var Names = []string{nextUse{}.String(), lfu{}.String(), lru{}.String()}

// Parse gives the policy of a name.
func Parse(name string) (Policy, error) {
	for _, p := range []Policy{nextUse{}, lfu{}, lru{}} {
		if p.String() == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no eviction policy is named %q, valid are %s", name, strings.Join(Names, ", "))
}
