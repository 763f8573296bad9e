package children

import (
	"fmt"
	"os"
	"strconv"
)

// ParentPipeEnv names the variable that tells a child the number of the pipe's descriptor.
const ParentPipeEnv = "MOEPOOL_PARENT_FD"

// parentPipeFD is the first of exec.Cmd.ExtraFiles.
const parentPipeFD = 3

// ParentPipe gives the pipe whose end means that the parent died, or nil in a process that Start did not start. The child calls it
// once, after any exec of its own (the descriptor survives that).
func ParentPipe() (*os.File, error) {
	text := os.Getenv(ParentPipeEnv)
	if text == "" {
		return nil, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("%s=%q is not a file descriptor", ParentPipeEnv, text)
	}
	f, err := openPipe(fd)
	if err != nil {
		return nil, fmt.Errorf("%s=%d: %w (the variable is set by moepool for its own children only)", ParentPipeEnv, fd, err)
	}
	os.Unsetenv(ParentPipeEnv)
	return f, nil
}
