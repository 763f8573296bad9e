// Package check is about the files below deploy: its sub-packages' tests decode them strictly, with the modules that define their formats, and
// compare what they say with the moepool binary (MOEPOOL_BINARY; without it, it is built). It must not know how moepool works.
package check
