//go:build !unix

package doctor

import "io/fs"

// blocks is the size of a file in bytes.
func blocks(info fs.FileInfo) int64 { return info.Size() }
