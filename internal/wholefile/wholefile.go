// Package wholefile writes files that others may be reading: they find the former file or the new one, never a part.
package wholefile

import "os"

// Write makes or replaces a file that only its owner may read; it is on the disk when Write returns.
func Write(path string, content []byte) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	return err
}
