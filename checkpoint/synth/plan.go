package synth

import (
	"encoding/json"
	"fmt"

	"github.com/moepool/moepool/checkpoint"
)

// shard is one safetensors file that is going to be written.
type shard struct {
	name    string
	tensors []checkpoint.TensorInfo
	header  []byte
	bytes   int64 // of all tensors
}

// The largest model that is written: beyond any disk, but far from where sizes overflow or the plan itself is a burden.
const (
	maxBytes   = 1 << 50
	maxTensors = 1 << 18
)

// planShards spreads the tensors over files in the order of computation. An expert's tensors may come to lie in two files, as
// in released checkpoints.
func planShards(s *Spec, c *checkpoint.Config) ([]*shard, error) {
	shards := []*shard{{}}
	total, count := int64(0), 0
	for name, shape := range c.Tensors() {
		t := checkpoint.TensorInfo{Name: name, DType: s.dtype(), Shape: shape}
		count++
		if total += t.Bytes(); total > maxBytes || count > maxTensors {
			return nil, fmt.Errorf("synth: the model is larger than %d bytes or has more than %d tensors", int64(maxBytes), maxTensors)
		}
		last := shards[len(shards)-1]
		if last.bytes > 0 && last.bytes+t.Bytes() > s.shardBytes() {
			last = &shard{}
			shards = append(shards, last)
		}
		last.tensors = append(last.tensors, t)
		last.bytes += t.Bytes()
	}
	for i, file := range shards {
		file.name = "model.safetensors"
		if len(shards) > 1 {
			file.name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		}
		var err error
		if file.header, err = checkpoint.EncodeHeader(file.tensors, map[string]string{"format": "pt"}); err != nil {
			return nil, err
		}
	}
	return shards, nil
}

// encodeIndex gives model.safetensors.index.json.
func encodeIndex(shards []*shard) ([]byte, error) {
	files, total := map[string]string{}, int64(0)
	for _, file := range shards {
		total += file.bytes
		for _, t := range file.tensors {
			files[t.Name] = file.name
		}
	}
	return json.MarshalIndent(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": files}, "", "  ")
}
