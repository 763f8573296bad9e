package shard

import "golang.org/x/sys/unix"

// lowerPriority gives the calling thread the lowest priority. A failure costs speed elsewhere, no more; lowering is always permitted.
func lowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) }
