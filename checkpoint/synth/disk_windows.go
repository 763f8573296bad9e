package synth

import "golang.org/x/sys/windows"

// freeBytes gives the space that this user can still write in the folder's volume; known is false where nobody can tell.
func freeBytes(dir string) (free int64, known bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, nil, nil); err != nil {
		return 0, false
	}
	return int64(available), true
}
