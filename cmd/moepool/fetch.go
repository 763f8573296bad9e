package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/fetch"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
)

const (
	// fetchAgain is how long a transfer that failed waits, fetchAttempts how often in a row it may fail without a piece in between.
	fetchAgain, fetchAttempts = time.Second, 30
	// fetchReport is how often a transfer says how far it is.
	fetchReport = 5 * time.Second
)

// offered is the cluster's object store as package fetch sees it.
type offered struct{ *transport.Objects }

func (s offered) Get(ctx context.Context, name string, limit int) ([]byte, error) {
	data, err := s.Objects.Get(ctx, name, limit)
	return data, notOffered(err)
}

func (s offered) Delete(ctx context.Context, name string) error {
	return notOffered(s.Objects.Delete(ctx, name))
}

func notOffered(err error) error {
	if errors.Is(err, transport.ErrNoObject) {
		return fmt.Errorf("%w (%w)", fetch.ErrNotOffered, err)
	}
	return err
}

// transfers says how far files are: at the first bytes, every few seconds, and at the end.
type transfers struct {
	verb string
	log  *logger

	mu   sync.Mutex
	file string
	said time.Time
}

func (t *transfers) progress(file string, done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if file == t.file && done < total && time.Since(t.said) < fetchReport {
		return
	}
	t.file, t.said = file, time.Now()
	t.log.Printf("%s %s: %s of %s", t.verb, file, bytesize.Text(done), bytesize.Text(total))
}

// offerModel puts the model into the cluster's object store, for workers with --fetch.
func offerModel(ctx context.Context, conn *transport.Conn, cluster string, c *checkpoint.Checkpoint, log *logger) error {
	objects, err := transport.OpenObjects(ctx, conn, cluster, true)
	if err != nil {
		return fmt.Errorf("--offer-model: %w", err)
	}
	report := &transfers{verb: "offering", log: log}
	m, err := fetch.Offer(ctx, offered{objects}, c, report.progress)
	if err != nil {
		return fmt.Errorf("--offer-model: %w", err)
	}
	log.Printf("model %.12s is offered to workers with --fetch: %d files", m.Model, len(m.Files))
	return nil
}

// offerFolder is where the embedded server keeps what is offered.
func offerFolder(dir, cluster string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("--offer-dir: no default folder: %w", err)
	}
	return filepath.Join(cache, "moepool", "offer", cluster), nil
}

// fetched is a model that is brought here as far as it is needed.
type fetched struct {
	conn       *transport.Conn
	folder     *fetch.Folder
	checkpoint *checkpoint.Checkpoint
	dir        string
	pieces     func() int64
	log        *logger
}

// fetchModel waits until a model is offered, and opens it in dir; "" is a folder of its own in the user's cache.
func fetchModel(ctx context.Context, o transport.ConnectOptions, cluster, dir string, log *logger) (f *fetched, err error) {
	o.Name += " (fetch)"
	f = &fetched{dir: dir, log: log}
	conn, err := transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	f.conn = conn
	var store fetch.Store
	var manifest *fetch.Manifest
	for said := false; ; said = true {
		objects, problem := transport.OpenObjects(ctx, conn, cluster, false)
		if problem = notOffered(problem); problem == nil {
			store = offered{objects}
			manifest, problem = fetch.Read(ctx, store)
		}
		if problem == nil {
			break
		}
		if !errors.Is(problem, fetch.ErrNotOffered) {
			return nil, fmt.Errorf("--fetch: %w", problem)
		}
		if !said {
			log.Printf("waiting for a coordinator of cluster %s that offers its model (coordinator --offer-model)", cluster)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(fetchAgain):
		}
	}
	if f.dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("--fetch: no default folder for models, --model names one: %w", err)
		}
		f.dir = filepath.Join(cache, "moepool", "models", manifest.Model[:16])
	}
	log.Printf("model %.12s is fetched into %s, as far as it is needed and not there", manifest.Model, f.dir)
	report := &transfers{verb: "fetching", log: log}
	var mu sync.Mutex
	pieces := int64(0)
	f.pieces = func() int64 { mu.Lock(); defer mu.Unlock(); return pieces }
	progress := func(file string, done, total int64) {
		mu.Lock()
		pieces++
		mu.Unlock()
		report.progress(file, done, total)
	}
	err = f.again(ctx, func() error {
		f.folder, f.checkpoint, err = fetch.Open(ctx, store, manifest, f.dir, progress)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("--fetch: %w", err)
	}
	return f, nil
}

// fetch brings a file here.
func (f *fetched) fetch(ctx context.Context, file string) error {
	return f.again(ctx, func() error { return f.folder.Fetch(ctx, file) })
}

// again repeats a transfer that the network interrupted.
func (f *fetched) again(ctx context.Context, transfer func() error) error {
	for failures := 0; ; {
		before := f.pieces()
		err := transfer()
		if failures++; f.pieces() > before {
			failures = 1
		}
		if err == nil || ctx.Err() != nil || failures >= fetchAttempts || errors.Is(err, fetch.ErrNotOffered) || errors.Is(err, fetch.ErrForeign) || errors.As(err, new(*fs.PathError)) {
			return err
		}
		f.log.Printf("warning: %v: trying again", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(fetchAgain):
		}
	}
}

// close ends the transfers' connection; the checkpoint is the worker's.
func (f *fetched) close() { f.conn.Close() }

// explainMissing says how a worker gets a model that its host lacks.
func explainMissing(err error) error {
	if errors.Is(err, checkpoint.ErrMissing) {
		return fmt.Errorf("%w; with --fetch a worker takes what is missing from its coordinator (started with --offer-model)", err)
	}
	return err
}
