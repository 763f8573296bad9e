// Package placement maps expert parts to workers. Pure: model and workers in, versioned plan out.
package placement

// Model is what placement needs to know.
type Model struct {
	Layers    []int // numbers of the layers that have experts
	Experts   int
	Parts     int
	PartBytes []int64 // packed bytes of one slot of part p
}

// Worker is where expert parts can go.
type Worker struct {
	ID       string
	Host     string
	Node     int
	Capacity int64 // bytes; 0 is unknown
}

// Plan is a placement: Owned[worker id][layer] lists expert·parts+part ascending. Every expert part has one owner.
type Plan struct {
	Epoch uint64
	Owned map[string]map[int][]uint32
	Owner map[int][]string // layer → expert·parts+part → worker id
}

// Compute gives the plan of an epoch; workers are taken in order of their ids. An error says how many bytes are needed and how
// many there are.
func Compute(epoch uint64, m Model, workers []Worker) (*Plan, error) { panic("skeleton") }
