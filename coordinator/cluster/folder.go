package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/moepool/moepool/internal/wholefile"
)

const (
	idFile          = "id"
	logFile         = "log.db"
	lockWait        = time.Second
	snapshotsToKeep = 2
)

// folder is what a coordinator keeps on disk: its id, the log, snapshots.
type folder struct {
	log       *raftboltdb.BoltStore
	snapshots *raft.FileSnapshotStore
}

// openFolder opens or makes a folder for the coordinator of an id. A folder of another id is refused: two coordinators with one log, or one
// with the log of another, could elect two leaders of one term.
func openFolder(dir, id string, logger hclog.Logger) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := claim(filepath.Join(dir, idFile), filepath.Join(dir, logFile), id); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	path := filepath.Join(dir, logFile)
	log, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: lockWait}, MsgpackUseNewTimeFormat: true})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s: another process has it open", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsToKeep, logger)
	if err != nil {
		log.Close()
		return nil, err
	}
	return &folder{log, snapshots}, nil
}

// claim writes the id into a new folder, and compares it in one that is not.
func claim(path, log, id string) error {
	held, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(log); err == nil {
			return fmt.Errorf("it has a log, but the file %s with the coordinator's id is gone: write the id that it had", path)
		}
		return wholefile.Write(path, []byte(id+"\n"))
	case err != nil:
		return err
	}
	if was := strings.TrimSpace(string(held)); was != id {
		return fmt.Errorf("this folder belongs to coordinator %q, and this one is %q (--raft-id): give each coordinator its own folder (--raft-dir), and always the same", was, id)
	}
	return nil
}
