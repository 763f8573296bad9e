package arena

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// fileSystems names the magic numbers of statfs(2) that people meet.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.F2FS_SUPER_MAGIC: "f2fs", unix.FUSE_SUPER_MAGIC: "fuse",
	unix.HUGETLBFS_MAGIC: "hugetlbfs", 0x2fc12fc1: "zfs", unix.V9FS_MAGIC: "9p",
}

func space(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return Space{}, err
	}
	name, ok := fileSystems[int64(st.Type)]
	if !ok {
		name = fmt.Sprintf("%#x", st.Type)
	}
	return Space{
		Dir:        dir,
		FileSystem: name,
		FreeBytes:  int64(st.Bavail) * int64(st.Bsize),
		TotalBytes: int64(st.Blocks) * int64(st.Bsize),
		Writable:   unix.Access(dir, unix.W_OK|unix.X_OK) == nil,
	}, nil
}

// openPastCache opens a file again so that reads come from the disk: with O_DIRECT, else with its pages dropped.
func openPastCache(f *os.File) (*os.File, error) {
	again, err := os.OpenFile(f.Name(), os.O_RDONLY|unix.O_DIRECT, 0)
	if err == nil {
		return again, nil
	}
	if again, err = os.Open(f.Name()); err != nil {
		return nil, err
	}
	_ = unix.Fadvise(int(again.Fd()), 0, 0, unix.FADV_DONTNEED) // a tmpfs has nothing to drop
	return again, nil
}

func openSmaps() (io.ReadCloser, error) { return os.Open("/proc/self/smaps") }
