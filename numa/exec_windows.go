package numa

import "errors"

// ExecPinned can't replace a process on Windows.
func ExecPinned(n *Node, strict bool, argv, env []string) error { return errors.ErrUnsupported }
