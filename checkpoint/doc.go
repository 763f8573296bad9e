// Package checkpoint reads model files: Hugging Face folders with config.json and safetensors. It owns the tensor names and
// configuration of each model family (one file a family) and the model digest. It must not know how weights are packed.
package checkpoint
