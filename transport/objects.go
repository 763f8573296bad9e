package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoObject says that there is no object of a name, or no store of the cluster.
var ErrNoObject = errors.New("no such object")

// objectLimit is how long one object may take, and one question about it.
const objectLimit, objectQuestion = 2 * time.Minute, 10 * time.Second

// askAgain is the pause after a question that nobody has heard.
const askAgain = 100 * time.Millisecond

// objectChunk is what one message of an object holds at most.
const objectChunk = 512 << 10

// Objects is a cluster's JetStream object store.
type Objects struct {
	conn  *Conn
	store jetstream.ObjectStore
}

// objectBucket is the name of a cluster's store, objectStream that of the stream behind it.
func objectBucket(cluster string) string { return "moe_" + cluster }
func objectStream(cluster string) string { return "OBJ_" + objectBucket(cluster) }

// OpenObjects opens the cluster's store; create makes it if there is none, else that is ErrNoObject.
func OpenObjects(ctx context.Context, c *Conn, cluster string, create bool) (*Objects, error) {
	if err := checkName("cluster name", cluster); err != nil {
		return nil, err
	}
	js, err := jetstream.New(c.nats)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, objectQuestion)
	defer cancel()
	o := &Objects{conn: c}
	bucket := objectBucket(cluster)
	o.store, err = js.ObjectStore(ctx, bucket)
	if create && errors.Is(err, jetstream.ErrBucketNotFound) {
		o.store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: bucket, Description: "files of moepool's model", Storage: jetstream.FileStorage})
	}
	return o, objectError(fmt.Sprintf("JetStream object store %s", bucket), err)
}

// objectError explains JetStream's own words.
func objectError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, jetstream.ErrBucketNotFound):
		return fmt.Errorf("%s: %w", what, ErrNoObject)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s: the NATS server has no JetStream (jetstream {} in its configuration): %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// patiently asks a store that was opened again for a while when nobody answers: of several servers none leads its stream just after it was made,
// or after the one that did has ended.
func patiently(ctx context.Context, ask func() error) error {
	for end := time.Now().Add(objectQuestion); ; {
		err := ask()
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return err
		}
	}
}

// Has says whether there is an object.
func (o *Objects) Has(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, objectQuestion)
	defer cancel()
	err := patiently(ctx, func() error {
		_, err := o.store.GetInfo(ctx, name)
		return err
	})
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	return err == nil, objectError("object "+name, err)
}

// Put stores an object, in place of another of that name.
func (o *Objects) Put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, objectLimit)
	defer cancel()
	meta := jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(min(objectChunk, o.conn.MaxPayload()/2))}}
	err := patiently(ctx, func() error {
		_, err := o.store.Put(ctx, meta, bytes.NewReader(data))
		return err
	})
	return objectError("object "+name, err)
}

// Get gives an object of at most limit bytes.
func (o *Objects) Get(ctx context.Context, name string, limit int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, objectLimit)
	defer cancel()
	var r jetstream.ObjectResult
	err := patiently(ctx, func() (err error) {
		r, err = o.store.Get(ctx, name)
		return err
	})
	if err != nil {
		return nil, objectError("object "+name, err)
	}
	defer r.Close()
	info, err := r.Info()
	if err != nil {
		return nil, objectError("object "+name, err)
	}
	if info.Size > uint64(limit) {
		return nil, fmt.Errorf("object %s has %d bytes, at most %d are taken", name, info.Size, limit)
	}
	data := make([]byte, info.Size)
	if _, err = io.ReadFull(r, data); err == nil {
		err = r.Error()
	}
	return data, objectError("object "+name, err)
}

// Delete removes an object.
func (o *Objects) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, objectQuestion)
	defer cancel()
	return objectError("object "+name, patiently(ctx, func() error { return o.store.Delete(ctx, name) }))
}
