package transport

// GenerateRequest asks the coordinator for text.
type GenerateRequest struct {
	Messages     []ChatMessage // through the model's chat template, or
	Prompt       string        // as it is, or
	PromptTokens []int32       // as they are
	MaxTokens    int
	Temperature  float32
	TopK         int
	TopP, MinP   float32
	Seed         uint64
	Stop         []string
	IgnoreEOS    bool
}

// ChatMessage is one turn.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// GenerateEvent is one piece of an answer; the last one has Done.
type GenerateEvent struct {
	Text   string
	Tokens []int32

	Done             bool
	FinishReason     string // stop, length, error
	Error            string
	PromptTokens     int
	CompletionTokens int
	PrefillSeconds   float64
	DecodeSeconds    float64
}
