// Package flags asks a moepool binary for its commands and flags, so that configurations can be checked against them.
package flags

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// variables are the MOEPOOL_ variables that belong to no flag.
var variables = []string{"MOEPOOL_NATS_TOKEN"}

// Binary gives the path of the moepool binary: MOEPOOL_BINARY, or one that is built now.
var Binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("MOEPOOL_BINARY"); path != "" {
		_, err := os.Stat(path)
		return path, err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("moepool-check-%d", os.Getpid()))
	build := exec.Command("go", "build", "-o", path, "./cmd/moepool")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building moepool: %w: %s", err, output)
	}
	return path, nil
})

// Root is the repository's folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "moepool")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no folder above this one holds cmd/moepool")
}

// flagLine finds a flag at the start of a line of the help text, and its type, which switches don't have.
var flagLine = regexp.MustCompile(`(?m)^ +(?:-[a-zA-Z], |    )--([a-z0-9-]+)(?: ([a-zA-Z0-9]+))?(?:  |$)`)

// Command is what `moepool NAME --help` says.
type Command struct {
	Name  string
	Flags map[string]bool // true: it takes a value
}

var commands sync.Map // name → func() (*Command, error)

// Of asks the binary for a command.
func Of(name string) (*Command, error) {
	ask, _ := commands.LoadOrStore(name, sync.OnceValues(func() (*Command, error) {
		binary, err := Binary()
		if err != nil {
			return nil, err
		}
		output, err := exec.Command(binary, name, "--help").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("moepool %s --help: %w: %s", name, err, output)
		}
		if !strings.Contains(string(output), "moepool "+name) { // an unknown command gives the root's help
			return nil, fmt.Errorf("moepool has no command %q", name)
		}
		c := &Command{Name: name, Flags: map[string]bool{}}
		for _, m := range flagLine.FindAllStringSubmatch(string(output), -1) {
			c.Flags[m[1]] = m[2] != ""
		}
		if len(c.Flags) < 2 {
			return nil, fmt.Errorf("moepool %s --help: no flags found in %q", name, output)
		}
		return c, nil
	}))
	return ask.(func() (*Command, error))()
}

// Check says what is wrong with a command line, which begins with the command's name. Positional arguments are for run alone.
func Check(line []string) error {
	if len(line) == 0 {
		return fmt.Errorf("no command")
	}
	c, err := Of(line[0])
	if err != nil {
		return err
	}
	for i := 1; i < len(line); i++ {
		word := line[i]
		if !strings.HasPrefix(word, "--") {
			if c.Name != "run" {
				return fmt.Errorf("moepool %s: argument %q belongs to no flag", c.Name, word)
			}
			continue
		}
		name, _, joined := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		value, known := c.Flags[name]
		switch {
		case !known:
			return fmt.Errorf("moepool %s has no flag --%s", c.Name, name)
		case value && !joined:
			if i++; i == len(line) {
				return fmt.Errorf("moepool %s: --%s needs a value", c.Name, name)
			}
		}
	}
	return nil
}

// CheckVariable says what is wrong with the name of an environment variable of a command; names without the prefix are of no concern.
func CheckVariable(command, name string) error {
	flag, ours := strings.CutPrefix(name, "MOEPOOL_")
	if !ours || slices.Contains(variables, name) {
		return nil
	}
	c, err := Of(command)
	if err != nil {
		return err
	}
	if _, known := c.Flags[strings.ToLower(strings.ReplaceAll(flag, "_", "-"))]; !known {
		return fmt.Errorf("variable %s: moepool %s has no such flag", name, command)
	}
	return nil
}
