package checkpoint

// Checkpoint is an open model folder. Tensors are read through read-only mappings.
type Checkpoint struct{}

// Open reads configuration and tensor headers of the folder, and checks both against the files' sizes and against each other
// (every tensor that the family needs exists with the right shape) before anything is allocated.
func Open(dir string) (*Checkpoint, error) { panic("skeleton") }

// Close unmaps the files; tensors must not be used afterwards.
func (c *Checkpoint) Close() error { panic("skeleton") }

// Dir is the folder.
func (c *Checkpoint) Dir() string { panic("skeleton") }

// Config is the model's configuration.
func (c *Checkpoint) Config() *Config { panic("skeleton") }

// Digest is the model digest of DESIGN §4 in hex.
func (c *Checkpoint) Digest() (string, error) { panic("skeleton") }

// Tensor finds a tensor by name; the error says which names look alike.
func (c *Checkpoint) Tensor(name string) (Tensor, error) { panic("skeleton") }

// Names lists all tensor names, sorted.
func (c *Checkpoint) Names() []string { panic("skeleton") }

// Release tells the kernel that the tensor's pages are no longer needed (they were packed).
func (c *Checkpoint) Release(t Tensor) { panic("skeleton") }

// DType is how a tensor's elements are stored.
type DType string

// The element types that are read; others are listed but refused by Row.
const (
	BF16 DType = "BF16"
	F16  DType = "F16"
	F32  DType = "F32"
)

// Tensor is a tensor inside a mapped file.
type Tensor struct {
	Name  string
	File  string
	DType DType
	Shape []int
	Data  []byte // mapped, read-only
}

// Row stores row i (all dimensions but the first flattened; a vector is one row) as float32 into dst.
func (t Tensor) Row(i int, dst []float32) { panic("skeleton") }

// RowRange stores the columns [from, from+len(dst)) of row i.
func (t Tensor) RowRange(i, from int, dst []float32) { panic("skeleton") }

// Float32 gives all elements as float32.
func (t Tensor) Float32() []float32 { panic("skeleton") }
