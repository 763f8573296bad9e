// Package checkpoint reads model files: Hugging Face folders with config.json and safetensors. It owns the tensor names and
// configuration of each model family (one file a family) and the model digest. It must not know how weights are packed.
//
// Everything that a file claims (header length, offsets, shapes, names, configuration values) is checked against the size of
// the file and against the configuration in Open, before memory is taken for it. Tensors are read through read-only
// mappings, so opening a model of any size costs the bytes of its headers only. As with every mapping, a file that is cut while
// it is open faults where it is read: who reads tensors of files that others may change sets debug.SetPanicOnFault.
package checkpoint
