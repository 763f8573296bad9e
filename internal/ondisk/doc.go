// Package ondisk gives tests a folder whose files lie on a disk, so that their pages can leave the page cache and come back. It knows nothing
// about what is written there.
package ondisk
