//go:build !amd64 || purego

package bench

func bestLoops() loops { return plainLoops }
