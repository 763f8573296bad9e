package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/evaluation"
	"github.com/moepool/moepool/internal/wholefile"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/worker"
)

// Arms under a resident limit begin alike: what one arm left in memory would be the next one's hits. So for each of them the workers start
// anew, after the pages of their arena files were dropped from the page cache and the profile of what was needed most has become what it
// was before the first arm; then they read what --warm asks for, and compute --warmup tokens without a budget, which nothing is counted of.

// How an arm began, in its row.
const (
	startFollowing = "as the arm before left memory"
	startWithoutIO = "all experts in anonymous memory"
)

// begin has a model running for an arm under a limit ("" is the flag's own value), and says how the arm begins.
func (e *evaluator) begin(ctx context.Context, f *localFlags) (string, error) {
	if e.cluster != nil && e.resident() == 0 {
		return e.following(), nil
	}
	e.cold = f.residency.limit != limitAuto && f.residency.limit != limitNone
	if err := e.start(ctx, f); err != nil {
		return "", err
	}
	if e.resident() == 0 {
		return e.following(), nil
	}
	if !e.cold || e.packed() {
		e.cold = true
		if err := e.start(ctx, f); err != nil {
			return "", err
		}
	}
	how := "new workers with nothing in memory"
	if f.residency.warm != string(worker.WarmNone) {
		how += " but --warm " + f.residency.warm
	}
	if e.flags.warmup == 0 {
		return how, nil
	}
	off := e.plan.off()
	feed := e.plan.feed(&off)
	windows := e.windows[max(0, len(e.windows)-max(1, feed.Rows)):] // the last ones, which are not measured next
	short := make([][]int32, len(windows))
	for i, w := range windows {
		short[i] = w[:min(len(w), e.flags.warmup+1)]
	}
	if evaluation.Predicted(short) > 0 {
		if _, err := evaluation.Measure(ctx, e.cluster.Engine, short, feed); err != nil {
			return "", fmt.Errorf("before the measurement: %w", err)
		}
	}
	return fmt.Sprintf("%s, then %d tokens without a budget", how, evaluation.Predicted(short)), nil
}

func (e *evaluator) following() string {
	if e.flags.local.arena.dir == "none" {
		return startWithoutIO
	}
	return startFollowing
}

// resident is the workers' resident limit together, 0 without one.
func (e *evaluator) resident() (limit int64) {
	for _, b := range e.cluster.Members().Workers() {
		limit += b.Residency.Limit
	}
	return limit
}

// packed says whether the workers have just written arena files: what was written is still in memory.
func (e *evaluator) packed() bool {
	for _, b := range e.cluster.Members().Workers() {
		if b.Arena.PackedBytes > 0 {
			return true
		}
	}
	return false
}

// prepareFolders is called before a model's workers start: it remembers or restores their profiles, and drops their files' pages for a cold
// beginning.
func (e *evaluator) prepareFolders(c *coordinator.Coordinator, f *localFlags) error {
	dir, err := f.arena.folder()
	if err != nil || dir == "" {
		return err
	}
	format, err := kernels.ParseFormat(f.model.format)
	if err != nil {
		return err
	}
	folder := filepath.Dir(worker.ArenaFolder(dir, c.Identity.ModelDigest, format, f.model.parts, "any"))
	if e.saved == nil {
		e.saved = map[string]savedProfiles{}
	}
	if known, ok := e.saved[folder]; ok {
		err = known.restore(folder)
	} else {
		e.saved[folder], err = readProfiles(folder)
	}
	if err != nil {
		return err
	}
	if !e.cold {
		return nil
	}
	files, err := filesBelow(folder, func(name string) bool { return strings.HasSuffix(name, ".arena") })
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := dropPages(path); err != nil {
			return fmt.Errorf("an arm must begin with nothing in memory: %w", err)
		}
	}
	return nil
}

// filesBelow are the files in the folders of a folder, one folder a worker, whose name matches; none if there is no such folder yet.
func filesBelow(folder string, match func(name string) bool) (paths []string, err error) {
	workers, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, w := range workers {
		if !w.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(folder, w.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.Type().IsRegular() && match(f.Name()) {
				paths = append(paths, filepath.Join(folder, w.Name(), f.Name()))
			}
		}
	}
	return paths, err
}

// savedProfiles are the files of what workers needed most, by path.
type savedProfiles map[string][]byte

// readProfiles reads those of the workers' folders in folder.
func readProfiles(folder string) (savedProfiles, error) {
	p := savedProfiles{}
	files, err := filesBelow(folder, func(name string) bool { return name == worker.ProfileName })
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if p[path], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// restore makes the files what they were; those that came later are removed.
func (p savedProfiles) restore(folder string) error {
	now, err := readProfiles(folder)
	if err != nil {
		return err
	}
	for path := range now {
		if _, known := p[path]; !known {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for path, content := range p {
		if !bytes.Equal(content, now[path]) {
			if err := wholefile.Write(path, content); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreProfiles makes all profiles what they were before the first arm, when no worker runs.
func (e *evaluator) restoreProfiles() error {
	var errs []error
	for folder, p := range e.saved {
		errs = append(errs, p.restore(folder))
	}
	return errors.Join(errs...)
}
