package checkpoint

// Config is a model's configuration in one spelling, whatever config.json used.
type Config struct {
	Family        string // model_type: "qwen3_moe", "qwen2_moe", "mixtral"
	Vocabulary    int
	Hidden        int
	Heads         int
	KVHeads       int
	HeadDim       int
	MaxPositions  int
	NormEpsilon   float32
	RopeTheta     float64
	QKNorm        bool // RMSNorm of each query and key head before rotation
	QKVBias       bool
	OutputBias    bool
	BlockFP8      bool // matrices may be stored as e4m3 with a scale for each block of 128 x 128
	TiedEmbedding bool // the LM head is the embedding matrix

	Layers []LayerConfig

	DenseIntermediate  int // FFN width of layers without experts
	Experts            int
	TopK               int
	ExpertIntermediate int
	SharedIntermediate int  // width of the shared expert, 0 if there is none
	SharedGate         bool // the shared expert is scaled by sigmoid(gate·x)
	NormalizeTopK      bool // the top-k probabilities are divided by their sum

	BOS int   // -1 if there is none
	EOS []int // end tokens of config.json and generation_config.json, ascending
	Names
}

// LayerConfig is what differs between layers.
type LayerConfig struct {
	MoE           bool
	SlidingWindow int // number of positions that a query sees, itself included; 0 is all
}

// Names gives the tensor names of a family. LMHead is the embedding where the two are tied.
type Names struct {
	Embedding, FinalNorm, LMHead string
	Layer                        func(layer int) LayerNames
	Expert                       func(layer, expert int) ExpertNames
}

// LayerNames are the tensors of one layer; a name that the family or layer lacks is "".
type LayerNames struct {
	InputNorm, PostAttentionNorm   string
	Q, K, V, O                     string
	QBias, KBias, VBias, OBias     string
	QNorm, KNorm                   string
	Router                         string
	DenseGate, DenseUp, DenseDown  string
	SharedGateProj, SharedUpProj   string
	SharedDownProj, SharedGateGate string
}

// ExpertNames are the three projections of one expert: gate and up [intermediate, hidden], down [hidden, intermediate].
type ExpertNames struct{ Gate, Up, Down string }
