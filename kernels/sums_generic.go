//go:build purego || !amd64

package kernels

func narrowSums(dst []byte, sum []int64) bool { return narrowSumsGeneric(dst, sum) }
func widenSums(sum []int64, src []byte)       { widenSumsGeneric(sum, src) }
func addSums(sum, part []int64)               { addSumsGeneric(sum, part) }
