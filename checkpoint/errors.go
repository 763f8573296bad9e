package checkpoint

import (
	"errors"
	"fmt"
	"strings"
)

// TensorError says that a tensor of a file is not what the configuration or the file's own header promises.
type TensorError struct {
	File     string // path of the safetensors file or of the folder
	Tensor   string // name, "" if the header as a whole is meant
	Expected string
	Found    string
}

func (e *TensorError) Error() string {
	if e.Tensor == "" {
		return fmt.Sprintf("%s: expected %s, found %s", e.File, e.Expected, e.Found)
	}
	return fmt.Sprintf("%s: tensor %s: expected %s, found %s", e.File, e.Tensor, e.Expected, e.Found)
}

// ConfigError says that a key of config.json or generation_config.json cannot be used.
type ConfigError struct {
	File    string
	Key     string
	Problem string // what is wrong and what is valid
}

func (e *ConfigError) Error() string { return fmt.Sprintf("%s: %s: %s", e.File, e.Key, e.Problem) }

// ErrMissing is in the error of Open when the folder, or files that belong into it, are not there; another host may have them.
var ErrMissing = errors.New("files of the model are missing")

type missing struct{ error }

func (m missing) Is(target error) bool { return target == ErrMissing }
func (m missing) Unwrap() error        { return m.error }

// MissingError says which of the files that an index names are not there.
type MissingError struct {
	Index string   // path
	Files []string // names
	err   error    // of the first
}

func (e *MissingError) Error() string {
	if len(e.Files) < 2 {
		return fmt.Sprintf("%s names a file that does not exist: %v", e.Index, e.err)
	}
	return fmt.Sprintf("%s names %d files that do not exist: %s", e.Index, len(e.Files), strings.Join(e.Files, ", "))
}

func (e *MissingError) Unwrap() error { return e.err }
