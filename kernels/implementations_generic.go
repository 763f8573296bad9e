//go:build purego || !amd64

package kernels

// implementations are all of this build, best first.
var implementations = []*Set{&generic}
