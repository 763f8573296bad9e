// Package evaluation measures the quality of the running model on text: its perplexity, and its divergence from a reference run of
// the same text. It knows a model only as an engine.
//
// Everything here measures and decides nothing, so package math's Exp and Log serve; their last bits may differ between CPUs.
package evaluation
