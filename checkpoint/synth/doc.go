// Package synth writes random checkpoints: of the shape of real models, to measure without a download, and small ones for
// tests. The same Spec gives the same bytes on every machine. It owns the random weights and the shapes of known models; what
// tensors a model has comes from package checkpoint.
package synth
