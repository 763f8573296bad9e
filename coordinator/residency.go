package coordinator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moepool/moepool/coordinator/engine"
)

// ResidencyOverride tells the budget which experts to take for resident, instead of what workers report: it shows what a
// budget costs in quality when that much of a model is in memory, on a host that has room for all of it.
type ResidencyOverride struct {
	set      bool
	resident map[int32]bool
}

// ParseResidency reads "observed", "none" or a comma-separated list of expert ids.
func ParseResidency(s string) (ResidencyOverride, error) {
	switch s {
	case "observed":
		return ResidencyOverride{}, nil
	case "none":
		return ResidencyOverride{set: true}, nil
	}
	r := ResidencyOverride{set: true, resident: map[int32]bool{}}
	for _, field := range strings.Split(s, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || id < 0 {
			return r, fmt.Errorf("%q is neither observed, none nor a comma-separated list of expert ids", s)
		}
		r.resident[int32(id)] = true
	}
	return r, nil
}

// check refuses ids of experts that the model doesn't have.
func (r ResidencyOverride) check(experts int) error {
	for id := range r.resident {
		if int(id) >= experts {
			return fmt.Errorf("--budget-residency names expert %d: a layer of this model has the experts 0 to %d", id, experts-1)
		}
	}
	return nil
}

// Resident implements engine.Residency.
func (r ResidencyOverride) Resident(_ int, expert int32) bool { return r.resident[expert] }

type overriddenResidency struct {
	engine.Experts
	override ResidencyOverride
}

func (o overriddenResidency) Snapshot() engine.Residency {
	workers, ok := o.Experts.Snapshot().(engine.WorkerResidency)
	if !ok {
		return o.override
	}
	return overriddenWorkers{o.override, workers}
}

// overriddenWorkers says of the parts of an expert what is said of it as a whole.
type overriddenWorkers struct {
	ResidencyOverride
	workers engine.WorkerResidency
}

func (o overriddenWorkers) ResidentPart(layer int, expert int32, _ int) bool {
	return o.Resident(layer, expert)
}

func (o overriddenWorkers) Reader(layer int, expert int32, part int) int {
	return o.workers.Reader(layer, expert, part)
}
