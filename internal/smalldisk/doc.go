// Package smalldisk gives tests a file system that is soon full. It knows nothing about what is written there.
package smalldisk
