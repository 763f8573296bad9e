package checkpoint

import "fmt"

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
